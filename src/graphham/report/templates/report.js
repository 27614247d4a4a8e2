"use strict";
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

  const restyle = async (isDark) => {
    for (const plot of document.querySelectorAll(".plot.drawn")) {
      await Plotly.relayout(plot, look(isDark));
      const rings = plot.data.map((t, i) => (t.meta && t.meta.role === "boundary" ? i : -1)).filter((i) => i >= 0);
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
    if (narrow()) {
      layout.height = Math.min(layout.height, 420);
      layout.font.size = 11;
      if (figure.data[0].type.startsWith("scattergl")) layout.legend = { ...layout.legend, orientation: "h", x: 0, y: -0.02, yanchor: "top" };
      if (figure.data[0].type === "sankey") layout.height = Math.max(420, figure.layout.height);
    }
    await Plotly.newPlot(plot, figure.data, layout, {
      responsive: true,
      displaylogo: false,
      scrollZoom: false,
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    });
    plot.classList.add("drawn");
    await Plotly.relayout(plot, look(dark.matches));
  }
  if (dark.matches) await restyle(true);
  dark.addEventListener("change", (event) => restyle(event.matches));
  window.addEventListener("beforeprint", () => restyle(false));
  window.addEventListener("afterprint", () => restyle(dark.matches));
  document.documentElement.dataset.ready = "yes";
})();
