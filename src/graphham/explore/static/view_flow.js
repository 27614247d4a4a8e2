// The hierarchy as a flow of nodes from fine groups into coarser ones.
import { el, plotText } from "./dom.js";
import { plotGroups } from "./group_plot.js";
import { addView } from "./views.js";

addView({ name: "flow", title: "Flow", order: 3, usesPlotly: true, draw: drawFlow });

/** @param {HTMLElement} root @param {{model: any, state: any, actions: any}} page */
async function drawFlow(root, { model, state, actions }) {
  const { levels, overview } = model;
  if (levels.length < 2) {
    root.replaceChildren(el("p", { className: "note" }, "There is one level of groups, so nothing flows between levels."));
    return;
  }
  const start = levels.reduce((all, g) => [...all, all[all.length - 1] + g.length], [0]);
  const selected = state.values.group;
  const keys = levels.flatMap((groups, l) => groups.map((_, i) => `${l + 1}-${i}`));
  const link = { source: [], target: [], value: [], color: [] };
  const near = new Set([selected]);
  overview.flows.forEach((flow, l) => flow.forEach((line, low) => line.forEach((value, high) => {
    if (!value) return;
    const ends = [`${l + 1}-${low}`, `${l + 2}-${high}`];
    const isNear = !selected || ends.includes(selected);
    if (isNear) ends.forEach((key) => near.add(key));
    link.source.push(start[l] + low);
    link.target.push(start[l + 1] + high);
    link.value.push(value);
    link.color.push(levels[l + 1][high].color + (isNear ? "77" : "14"));
  })));
  const groups = levels.flat();
  const color = groups.map((g, i) => (!selected || near.has(keys[i]) ? g.color : g.color + "33"));
  const width = Math.max(12, Math.floor((root.clientWidth - 60) / 11.5)); // signs per side
  const trace = { type: "sankey", arrangement: "fixed", node: { label: groups.map((g) => plotText(g.name, width)), color, pad: 8, thickness: 12, line: { width: 0 }, customdata: keys, hovertemplate: "%{label}: %{value:,} nodes<extra></extra>" }, link: { ...link, hovertemplate: "%{source.label} → %{target.label}: %{value:,} nodes<extra></extra>" }, textfont: { size: 10 }, valueformat: "," };
  const keyOf = (point) => point.customdata || (point.source ? keys[point.source.pointNumber] : "");
  await plotGroups(root, trace, { event: "plotly_click", keyOf, toggle: (key) => actions.toggleGroup(key), height: Math.max(380, 20 * Math.max(...levels.map((g) => g.length))) });
  const bars = Array.from(root.querySelectorAll(".sankey-node"));
  const bar = bars.find((b) => keys[/** @type {any} */ (b).__data__.node.pointNumber] === selected);
  if (bar) root.scrollTop += bar.getBoundingClientRect().top - root.getBoundingClientRect().top - root.clientHeight / 2;
}
