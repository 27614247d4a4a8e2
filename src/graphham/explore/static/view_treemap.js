// The hierarchy as areas that follow the number of nodes.
import { plotText, wrapLines } from "./dom.js";
import { hideTinyText } from "./figure_tools.js";
import { plotGroups } from "./group_plot.js";
import { addView } from "./views.js";

addView({ name: "treemap", title: "Treemap", order: 2, usesPlotly: true, draw: drawTreemap });

/** @param {HTMLElement} root @param {{model: any, state: any, actions: any}} page */
async function drawTreemap(root, { model, state, actions }) {
  const { levels, overview } = model;
  const top = levels.length;
  const selected = state.values.group;
  const ids = ["all"];
  const parents = [""];
  const labels = [plotText(overview.name)];
  const colors = ["rgba(128,128,128,0.15)"];
  const sizes = [overview.numNodes];
  const sum = (level, group) => (level === 1 ? levels[0][group].size : model.children(level, group).reduce((n, c) => n + sum(c.level, c.group), 0));
  for (let level = top; level >= 1; level--) {
    levels[level - 1].forEach((g, i) => {
      ids.push(`${level}-${i}`);
      parents.push(level === top ? "all" : `${level + 1}-${g.parent}`);
      labels.push(plotText(g.name));
      colors.push(g.color);
      sizes.push(sum(level, i));
    });
  }
  const mark = getComputedStyle(document.documentElement).getPropertyValue("--mark").trim();
  const line = { width: ids.map((id) => (id === "all" ? 0 : id === selected ? 4 : 1)), color: ids.map((id) => (id === selected ? mark : "rgba(255,255,255,0.6)")) };
  const hasGroups = new Set(parents);
  // A group that holds others has one line for its name, the innermost ones have an area.
  const text = labels.map((label, i) => (hasGroups.has(ids[i]) ? label : wrapLines(label)));
  const trace = { type: "treemap", ids, parents, labels, text, textinfo: "text", values: sizes, branchvalues: "total", sort: false, marker: { colors, line }, opacity: 1, hovertemplate: "%{label}<br>%{value:,} nodes<extra></extra>", pathbar: { visible: false } };
  const keyOf = (point) => (point.id === "all" ? "" : point.id || "");
  await plotGroups(root, trace, { event: "plotly_treemapclick", keyOf, toggle: (key) => actions.toggleGroup(key) });
  hideTinyText(root);
}
