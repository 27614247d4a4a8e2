// The hierarchy three ways: an outline, a treemap and the flow between levels.
import { byId, shown, plotText, el, count, percent, wrapped, hideTiny } from "./dom.js";

export class HierarchyView {
  /** @param {any} model @param {any} state @param {any} actions */
  constructor(model, state, actions) {
    this.model = model;
    this.state = state;
    this.actions = actions;
    /** @type {HTMLElement[]} */
    this.tabs = Array.from(document.querySelectorAll("[data-tab]"));
    for (const tab of this.tabs) {
      tab.addEventListener("click", () => state.set({ tab: tab.dataset.tab }));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const next = this.tabs[(this.tabs.indexOf(tab) + step + this.tabs.length) % this.tabs.length];
        next.focus();
        next.click();
      });
    }
  }

  get open() {
    return ["tree", "treemap", "flow"].includes(this.state.values.tab) ? this.state.values.tab : "tree";
  }

  /** Brings the tabs up to date, and the tree, which needs no plotly. */
  drawTabs() {
    const open = this.open;
    for (const tab of this.tabs) {
      const is = tab.dataset.tab === open;
      tab.setAttribute("aria-selected", String(is));
      tab.tabIndex = is ? 0 : -1;
      byId(tab.dataset.tab).hidden = !is;
    }
    if (open === "tree") this.drawTree();
  }

  async draw() {
    this.drawTabs();
    const open = this.open;
    if (open === "treemap") await this.drawTreemap();
    if (open === "flow") await this.drawFlow();
  }

  drawTree() {
    const chosen = this.state.values.group;
    const top = this.model.levels.length;
    const branch = (level, group) => {
      const g = this.model.group(level, group);
      const key = `${level}-${group}`;
      const button = el("button", { role: "treeitem", type: "button", "data-group": key, "aria-selected": String(key === chosen), "aria-level": top - level + 1, title: `level ${level}, ${percent(g.share, 1)} of all nodes`, onclick: () => this.actions.selectGroup(key === this.state.values.group ? "" : key) },
        el("span", { className: "swatch", style: { background: g.color } }), el("span", { className: "label" }, shown(g.name, 60)), el("span", { className: "n" }, count(g.size)));
      const below = this.model.children(level, group).sort((a, b) => b.size - a.size);
      return el("li", { role: "none" }, button, below.length ? el("ul", { role: "group" }, ...below.map((c) => branch(c.level, c.group))) : null);
    };
    const order = this.model.levels[top - 1].map((g, i) => [g.size, i]).sort((a, b) => b[0] - a[0]);
    const list = el("ul", { className: "tree", role: "tree", "aria-label": "Groups" }, ...order.map(([, i]) => branch(top, i)));
    list.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const items = Array.from(list.querySelectorAll("button"));
      const next = items[items.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement)) + step];
      if (next) next.focus();
    });
    const before = byId("tree").scrollTop;
    byId("tree").replaceChildren(list);
    byId("tree").scrollTop = before;
    const selected = list.querySelector("[aria-selected=true]");
    if (selected) selected.scrollIntoView({ block: "nearest" });
  }

  async drawTreemap() {
    const { levels, overview } = this.model;
    const top = levels.length;
    const chosen = this.state.values.group;
    const ids = ["all"];
    const parents = [""];
    const labels = [plotText(overview.name)];
    const colors = ["rgba(128,128,128,0.15)"];
    const sizes = [overview.numNodes];
    const lines = [0];
    const sum = (level, group) => (level === 1 ? levels[0][group].size : this.model.children(level, group).reduce((n, c) => n + sum(c.level, c.group), 0));
    for (let level = top; level >= 1; level--) {
      levels[level - 1].forEach((g, i) => {
        ids.push(`${level}-${i}`);
        parents.push(level === top ? "all" : `${level + 1}-${g.parent}`);
        labels.push(plotText(g.name));
        colors.push(g.color);
        sizes.push(sum(level, i));
        lines.push(`${level}-${i}` === chosen ? 4 : 1);
      });
    }
    const mark = getComputedStyle(document.documentElement).getPropertyValue("--mark").trim();
    const hasGroups = new Set(parents);
    // A group that holds others has one line for its name, the innermost ones have an area.
    const text = labels.map((label, i) => (hasGroups.has(ids[i]) ? label : wrapped(label)));
    const trace = { type: "treemap", ids, parents, labels, text, textinfo: "text", values: sizes, branchvalues: "total", sort: false, marker: { colors, line: { width: lines, color: ids.map((id) => (id === chosen ? mark : "rgba(255,255,255,0.6)")) } }, opacity: 1, hovertemplate: "%{label}<br>%{value:,} nodes<extra></extra>", pathbar: { visible: false } };
    await this.plot("treemap", trace, (event) => event.points[0].id || "", "plotly_treemapclick");
    hideTiny(byId("treemap"));
  }

  async drawFlow() {
    const { levels, overview } = this.model;
    if (levels.length < 2) {
      byId("flow").replaceChildren(el("p", { className: "note" }, "There is one level of groups, so nothing flows between levels."));
      return;
    }
    const start = levels.reduce((all, g) => [...all, all[all.length - 1] + g.length], [0]);
    const chosen = this.state.values.group;
    const keys = levels.flatMap((groups, l) => groups.map((_, i) => `${l + 1}-${i}`));
    const link = { source: [], target: [], value: [], color: [] };
    overview.flows.forEach((flow, l) => flow.forEach((line, low) => line.forEach((value, high) => {
      if (!value) return;
      const is = !chosen || chosen === `${l + 1}-${low}` || chosen === `${l + 2}-${high}`;
      link.source.push(start[l] + low);
      link.target.push(start[l + 1] + high);
      link.value.push(value);
      link.color.push(levels[l + 1][high].color + (is ? "77" : "14"));
    })));
    const nodes = levels.flat();
    const near = new Set([chosen]);
    overview.flows.forEach((flow, l) => flow.forEach((line, low) => line.forEach((value, high) => {
      if (value && chosen === `${l + 1}-${low}`) near.add(`${l + 2}-${high}`);
      if (value && chosen === `${l + 2}-${high}`) near.add(`${l + 1}-${low}`);
    })));
    const color = nodes.map((g, i) => (!chosen || near.has(keys[i]) ? g.color : g.color + "33"));
    const room = Math.max(12, Math.floor((byId("flow").clientWidth - 60) / 11.5)); // signs per side
    const trace = { type: "sankey", arrangement: "fixed", node: { label: nodes.map((g) => plotText(g.name, room)), color, pad: 8, thickness: 12, line: { width: 0 }, customdata: keys, hovertemplate: "%{label}: %{value:,} nodes<extra></extra>" }, link: { ...link, hovertemplate: "%{source.label} → %{target.label}: %{value:,} nodes<extra></extra>" }, textfont: { size: 10 }, valueformat: "," };
    await this.plot("flow", trace, (event) => {
      const point = event.points[0];
      return point.customdata || (point.source ? keys[point.source.pointNumber] : "");
    }, "plotly_click", Math.max(380, 20 * Math.max(...levels.map((g) => g.length))));
    const bars = Array.from(byId("flow").querySelectorAll(".sankey-node"));
    const bar = bars.find((b) => keys[/** @type {any} */ (b).__data__.node.pointNumber] === chosen);
    if (bar) byId("flow").scrollTop += bar.getBoundingClientRect().top - byId("flow").getBoundingClientRect().top - byId("flow").clientHeight / 2;
  }

  async plot(id, trace, keyOf, clickEvent, height = undefined) {
    const root = /** @type {any} */ (byId(id)); // plotly adds to its elements
    const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
    const layout = { autosize: true, height, margin: { l: 6, r: 6, t: 10, b: 8 }, paper_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 12, family: getComputedStyle(document.body).fontFamily } };
    await Plotly.react(root, [trace], layout, { responsive: true, displayModeBar: false });
    root.keyOf = keyOf;
    if (root.isListening) return;
    root.isListening = true;
    root.on("plotly_afterplot", () => hideTiny(root));
    root.on(clickEvent, (event) => {
      const key = root.keyOf(event);
      this.actions.selectGroup(key === "all" || key === this.state.values.group ? "" : key);
      return false; // the treemap must not zoom into what was clicked
    });
  }
}
