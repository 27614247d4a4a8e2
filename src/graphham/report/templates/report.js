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
    // Names were placed for a map twice as wide: only the largest have room here.
    if (layout.annotations) layout.annotations = layout.annotations.slice(0, 5);
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

  const isPointColor = (trace, layout) => trace.type.startsWith("scatter") && layout.xaxis.visible === false && typeof trace.marker.color === "string" && trace.marker.color[0] === "#";
  const isRing = (trace) => Boolean(trace.meta && trace.meta.role === "boundary");

  /** Gives a figure that is not drawn yet, or about to be drawn anew, the colours of the theme. */
  const dress = ({ data, layout }, isDark) => {
    layout.font = { ...layout.font, color: look(isDark)["font.color"] };
    layout.hoverlabel = { ...layout.hoverlabel, bgcolor: look(isDark)["hoverlabel.bgcolor"], font: { color: look(isDark)["hoverlabel.font.color"] } };
    // The names on a map stand on paper of their own, so that the points below do not cross them.
    for (const name of layout.annotations || []) name.bgcolor = isDark ? "rgba(21,25,29,0.75)" : "rgba(255,255,255,0.75)";
    for (const trace of data) {
      if (isRing(trace)) trace.marker.line.color = isDark ? "#ffffff" : "#222222";
      if (!isPointColor(trace, layout)) continue;
      plain.set(trace, plain.get(trace) || trace.marker.color);
      trace.marker.color = isDark ? lightenColor(plain.get(trace)) : plain.get(trace);
    }
  };

  const restyle = async (isDark) => {
    for (const plot of document.querySelectorAll(".plot.drawn")) {
      dress(plot, isDark);
      await Plotly.redraw(plot);
    }
  };

  /** Makes a figure ready to be drawn: words for the pointer, and a layout for this screen. */
  const prepare = (figure) => {
    if (figure.isPrepared) return figure;
    figure.isPrepared = true;
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
    return figure;
  };

  const options = { responsive: true, displaylogo: false, scrollZoom: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };

  for (const plot of document.querySelectorAll(".plot")) {
    const figure = prepare(figures[plot.dataset.figure]);
    dress(figure, dark.matches);
    await Plotly.newPlot(plot, figure.data, figure.layout, options);
    plot.classList.add("drawn");
    if (figure.data[0].type === "treemap") {
      hideTinyText(plot);
      plot.on("plotly_afterplot", () => hideTinyText(plot));
    }
    await new Promise((done) => setTimeout(done)); // so that each picture shows before the next is made
  }

  // One map, coloured in several ways; what it shows in each way stands above it.
  for (const button of document.querySelectorAll(".switch input")) {
    button.addEventListener("change", async () => {
      const plot = document.querySelector("#map .plot");
      const figure = prepare(figures[button.value]);
      for (const line of document.querySelectorAll("#map .finding")) line.hidden = line.dataset.of !== button.value;
      const { range: x } = plot.layout.xaxis;
      const { range: y } = plot.layout.yaxis;
      Object.assign(figure.layout.xaxis, { range: x, autorange: false });
      Object.assign(figure.layout.yaxis, { range: y, autorange: false });
      plot.dataset.figure = button.value;
      dress(figure, dark.matches);
      await Plotly.react(plot, figure.data, figure.layout, options);
    });
  }
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
      const size = { width: PAPER, height: 460 + 19 * lines, "margin.b": 12 + 19 * lines };
      if (lines) Plotly.relayout(plot, { ...size, "legend.entrywidth": columns === 3 ? 150 : 240, "legend.font.size": 8, "legend.maxheight": 40 + 20 * lines });
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

// Groups open and close, and are sorted among their siblings.
for (const table of document.querySelectorAll("table[data-most]")) {
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const most = Number(table.dataset.most);
  const inside = (row) => rows.filter((r) => r.dataset.key && r.dataset.parent === row.dataset.key);
  const tops = () => Array.from(body.rows).filter((row) => !row.dataset.parent);
  const open = new Set(rows.filter((row) => row.dataset.key && !row.dataset.parent).length === 1 ? rows.map((row) => row.dataset.key) : []);
  let isWhole = tops().length <= most + 2;
  const more = document.createElement("button");
  more.type = "button";
  more.className = "more";
  if (!isWhole) table.parentElement.after(more);

  const show = () => {
    const visible = new Set(isWhole ? tops() : tops().slice(0, most));
    for (const row of body.rows) {
      const above = row.dataset.parent ? rows.find((r) => r.dataset.key === row.dataset.parent) : null;
      row.hidden = above ? above.hidden || !open.has(above.dataset.key) : !visible.has(row);
      const fold = row.querySelector("button.fold");
      if (fold) fold.setAttribute("aria-expanded", String(open.has(row.dataset.key)));
    }
    more.textContent = isWhole ? `Show the first ${most} only` : `Show all ${tops().length}`;
    const all = table.closest("section").querySelector("#allgroups");
    if (!all) return;
    const isOpen = rows.every((row) => !inside(row).length || open.has(row.dataset.key));
    all.setAttribute("aria-pressed", String(isOpen));
    all.textContent = isOpen ? "Close all" : "Open all";
  };

  const sort = (name, sign) => {
    const value = (row) => (name === "name" ? row.dataset.name : Number(row.dataset[name]));
    const order = (a, b) => sign * (name === "name" ? value(a).localeCompare(value(b)) : value(a) - value(b));
    const put = (row) => {
      body.append(row);
      inside(row).sort(order).forEach(put);
    };
    tops().sort(order).forEach(put);
  };

  more.addEventListener("click", () => { isWhole = !isWhole; show(); });
  body.addEventListener("click", (event) => {
    const fold = event.target.closest("button.fold");
    if (!fold) return;
    const { key } = fold.closest("tr").dataset;
    if (!open.delete(key)) open.add(key);
    show();
  });
  for (const button of table.querySelectorAll("th button")) {
    button.addEventListener("click", () => {
      const head = button.closest("th");
      const isDown = head.getAttribute("aria-sort") === "none" ? button.dataset.sort !== "name" : head.getAttribute("aria-sort") !== "descending";
      for (const other of table.querySelectorAll("th[aria-sort]")) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      sort(button.dataset.sort, isDown ? -1 : 1);
      show();
    });
  }
  const all = table.closest("section").querySelector("#allgroups");
  if (all) all.addEventListener("click", () => {
    const isOpen = all.getAttribute("aria-pressed") === "true";
    for (const row of rows) if (inside(row).length) isOpen ? open.delete(row.dataset.key) : open.add(row.dataset.key);
    show();
  });
  show();
}

// A tile leads to its row among the numbers, which are folded away; browsers differ in opening them.
window.addEventListener("hashchange", () => {
  const target = location.hash.length > 1 ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
  const folded = target && target.closest("details:not([open])");
  if (!folded) return;
  folded.open = true;
  target.scrollIntoView();
});
