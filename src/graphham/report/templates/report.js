// Draws the figures of the page; colours follow the reader's light or dark setting.
(async () => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const figures = read("figures");
  const texts = read("texts");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const hasWebGL = Boolean(document.createElement("canvas").getContext("webgl"));
  const narrow = () => window.innerWidth < 760;

  /** @param {boolean} isDark */
  const look = (isDark) => ({
    "font.color": isDark ? "#e6e9ec" : "#1c2024",
    "hoverlabel.bgcolor": isDark ? "#2a3138" : "#ffffff",
    "hoverlabel.font.color": isDark ? "#e6e9ec" : "#1c2024",
  });

  // Deep colours vanish on black, so points get lighter ones there; areas keep theirs.
  const plain = new Map();

  /** Gives the picture the width and the legend its own height. */
  const fitPhone = (figure, layout) => {
    const first = figure.data[0];
    layout.font.size = 11;
    if (first.type.startsWith("scatter") && layout.showlegend !== false && figure.data.length > 1 && layout.xaxis.visible === false) {
      const lines = Math.ceil(figure.data.length / 2);
      layout.height = 330 + 19 * lines;
      layout.margin.b = 8 + 19 * lines;
      layout.legend = { ...layout.legend, orientation: "h", x: 0, y: 0, yanchor: "top", entrywidth: 130, maxheight: 40 + 19 * lines, font: { size: 10 } };
    } else if (first.type.startsWith("scatter") && layout.xaxis.visible === false) {
      layout.height = 340;
      if (first.marker.colorbar) first.marker.colorbar = { ...first.marker.colorbar, orientation: "h", y: -0.02, yanchor: "top", thickness: 8, len: 0.9 };
      layout.margin.b = 60;
    } else if (first.type === "heatmap") {
      first.showscale = false;
      const cut = (text) => (text.length > 16 ? text.slice(0, 15) + "…" : text);
      for (const axis of [layout.xaxis, layout.yaxis]) { axis.ticktext = axis.ticktext.map(cut); axis.tickfont = { size: 10 }; }
      layout.xaxis.tickangle = 90;
      layout.margin = { ...layout.margin, l: 10, r: 6, t: 6 };
    } else if (first.type === "sankey") layout.height = Math.max(420, layout.height);
    else layout.height = Math.min(layout.height, 420);
  };

  const restyle = async (isDark) => {
    for (const plot of document.querySelectorAll(".plot.drawn")) {
      await Plotly.relayout(plot, look(isDark));
      const rings = plot.data.map((t, i) => (t.meta && t.meta.role === "boundary" ? i : -1)).filter((i) => i >= 0);
      const points = plot.data.map((t, i) => (t.type.startsWith("scatter") && plot.layout.xaxis.visible === false && typeof t.marker.color === "string" && t.marker.color[0] === "#" ? i : -1)).filter((i) => i >= 0);
      for (const i of points) plain.set(plot.data[i], plain.get(plot.data[i]) || plot.data[i].marker.color);
      if (points.length) await Plotly.restyle(plot, { "marker.color": points.map((i) => (isDark ? lightenColor(plain.get(plot.data[i])) : plain.get(plot.data[i]))) }, points);
      if (rings.length) await Plotly.restyle(plot, { "marker.line.color": isDark ? "#ffffff" : "#222222" }, rings);
    }
  };

  for (const plot of document.querySelectorAll(".plot")) {
    const figure = figures[plot.dataset.figure];
    for (const trace of figure.data) {
      if (trace.type === "scattergl" && !hasWebGL) trace.type = "scatter";
      // The words for the pointer are shared by all maps, so each trace only lists numbers.
      if (trace.meta && trace.meta.rows) {
        trace.text = trace.meta.rows.map((i) => texts[i]);
        delete trace.meta.rows;
      }
    }
    const layout = figure.layout;
    layout.autosize = true;
    // Half of the height is the most a legend takes by itself; ours has its own room.
    if (layout.legend && layout.legend.entrywidth) layout.legend.maxheight = 0.9 * layout.height;
    if (narrow()) fitPhone(figure, layout);
    await Plotly.newPlot(plot, figure.data, layout, {
      responsive: true,
      displaylogo: false,
      scrollZoom: false,
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    });
    plot.classList.add("drawn");
    if (figure.data[0].type === "treemap") {
      hideTinyText(plot);
      plot.on("plotly_afterplot", () => hideTinyText(plot));
    }
    await Plotly.relayout(plot, look(dark.matches));
  }
  if (dark.matches) await restyle(true);
  dark.addEventListener("change", (event) => restyle(event.matches));
  // A sheet of paper is narrower than most screens, and nothing redraws by itself for it. What the
  // browser prints is what stands there when this returns, so nothing may move slowly into place.
  const PAPER = 690;
  const PAGE = 820; // the height of a page below a heading and its text
  const isMap = (plot) => plot.layout.xaxis && plot.layout.xaxis.visible === false;
  /** Draws a plot as it should look on paper. */
  const toPaper = (plot) => {
    const { layout, data } = plot;
    if (isMap(plot)) {
      const longest = Math.max(...data.map((trace) => trace.name.length));
      const columns = longest <= 14 ? 3 : 2;
      const lines = layout.showlegend === false ? 0 : Math.ceil(data.length / columns);
      const size = { width: PAPER / 2 - 8, height: 290 + 19 * lines, "margin.b": 12 + 19 * lines };
      if (lines) Plotly.relayout(plot, { ...size, "legend.entrywidth": columns === 3 ? 62 : 108, "legend.font.size": 8, "legend.maxheight": 40 + 20 * lines });
      else Plotly.relayout(plot, size);
    } else if (data[0].type === "sankey") Plotly.newPlot(plot, data, { ...layout, width: PAPER, height: Math.min(layout.height, PAGE) }, plot._context);
    else if (data[0].type === "heatmap") {
      const isTall = layout.height > PAGE;
      Plotly.relayout(plot, { width: Math.min(plot._fullLayout.width, PAPER), height: Math.min(layout.height, PAGE), ...(isTall ? { "yaxis.tickfont.size": 7 } : {}) });
    } else if (plot._fullLayout.width > PAPER) Plotly.relayout(plot, { width: PAPER });
  };
  let kept = [];
  window.addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
    kept = Array.from(document.querySelectorAll(".plot.drawn"), (plot) => [plot, JSON.parse(JSON.stringify(plot.layout))]);
    restyle(false);
    for (const [plot] of kept) toPaper(plot);
  });
  window.addEventListener("afterprint", async () => {
    for (const [plot, layout] of kept) await Plotly.react(plot, plot.data, layout, plot._context);
    kept = [];
    await restyle(dark.matches);
  });
  document.documentElement.dataset.ready = "yes";
})();

// A tile leads to its row among the numbers, which are folded away; browsers differ in opening them.
window.addEventListener("hashchange", () => {
  const target = location.hash.length > 1 ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
  const folded = target && target.closest("details:not([open])");
  if (!folded) return;
  folded.open = true;
  target.scrollIntoView();
});
