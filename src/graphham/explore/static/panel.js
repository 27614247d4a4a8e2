// The panel on the right: one node, one group, or how to begin.
import { byId, oneLine, el, count, percent, showAlert } from "./dom.js";
import { drawEgo } from "./ego.js";
import { groupOf } from "./state.js";

export class PanelView {
  /** @param {any} model @param {any} state @param {any} actions */
  constructor(model, state, actions) {
    this.model = model;
    this.state = state;
    this.actions = actions;
    this.root = byId("panel");
  }

  draw() {
    const node = this.actions.node();
    const parts = node ? this.node(node) : this.state.values.group ? this.group(this.state.values.group) : this.actions.selection() ? this.selection(this.actions.selection()) : this.start();
    this.root.replaceChildren(...parts.filter(Boolean));
    this.root.scrollTop = 0;
  }

  nodeLink(row, fallback) {
    const info = this.model.info(row);
    const id = info ? info.id : fallback;
    return el("button", { className: "link", type: "button", "data-row": row, title: info && info.title ? oneLine(info.title, 120) : null, onclick: () => this.actions.selectNode(row) }, oneLine(id, 48));
  }
  groupLink(level, group) {
    const g = this.model.group(level, group);
    return el("span", { className: "named" }, el("span", { className: "swatch", style: { background: g.color } }), el("button", { className: "link", type: "button", onclick: () => this.actions.selectGroup(`${level}-${group}`) }, oneLine(g.name, 60)));
  }
  meter(label, share, text, color) {
    const fill = el("i", { style: { width: percent(Math.max(0, Math.min(1, share)), 1) } });
    if (color) fill.style.background = color;
    return el("div", { className: "meter" }, label, el("div", { className: "track" }, fill), el("span", { className: "v" }, text));
  }

  start() {
    const { overview } = this.model;
    const nesting = overview.nesting == null || this.model.topLevel < overview.levels.length ? "" : overview.nesting > 0.9995 ? " Every fine group lies whole inside one coarse group." : ` The levels nest with a score of ${overview.nesting.toFixed(3)} (1: a perfect tree).`;
    const groups = overview.levels.length ? ` in ${this.model.groupsInUse.join(" fine and ")} ${overview.levels.length > 1 ? "coarse " : ""}groups` : "";
    return [
      el("h2", {}, "What you see"),
      el("p", {}, `${count(overview.numNodes)} nodes and ${count(overview.numEdges)} edges${groups}, as ${overview.method} sees them.${nesting}`),
      el("p", {}, overview.firm ? "Click a point for a node: its memberships, whom it listens to, what pulls it elsewhere." : "Click a point for a node: its neighbours and the nodes nearest to it.", groups ? " Click a group in the tree, treemap or flow: the rest of the map fades." : ""),
      el("p", {}, overview.firm ? "The slider rings the nodes most between two groups; crosses mark those of which there is too little to say. " : "", "Lasso draws a selection that the table lists and exports. The address bar always restores the view."),
      ...this.newNodes(),
      ...this.legend(),
      el("h3", {}, "Keys"),
      el("p", {}, "/ search · Esc clear · Tab and arrows move through tree and map · + and − zoom the map"),
      overview.structureNote ? el("p", { className: "note" }, overview.structureNote) : null,
      overview.attentionNote ? el("p", { className: "note" }, overview.attentionNote) : null,
    ];
  }

  /** Nodes embedded after the fit: where they were put. */
  newNodes() {
    const nodes = this.model.overview.newNodes || [];
    if (!nodes.length) return [];
    const near = (this.actions.map ? this.actions.map.extent : 1) / 12;
    const lines = nodes.slice(0, 40).map((n) => {
      const level = this.model.topLevel;
      const group = n.groups[level - 1];
      return el("li", {}, el("button", { className: "link", type: "button", onclick: () => this.actions.map.show([n.x - near, n.x + near], [n.y - near, n.y + near]) }, oneLine(n.id, 40)), group == null ? "" : el("span", { className: "v" }, this.groupLink(level, group)));
    });
    const more = nodes.length > 40 ? [el("p", { className: "note" }, `The first 40 of ${count(nodes.length)}.`)] : [];
    return [el("h3", { id: "newnodes" }, `New nodes: ${count(nodes.length)} (diamonds on the map)`), el("ol", { className: "plain" }, ...lines), ...more];
  }

  /** Where the selected nodes are in the run beside. */
  besideShares() {
    const { beside } = this.actions;
    const parts = beside ? beside.shares() : [];
    return parts.length ? [el("h3", {}, `In ${oneLine(beside.about.name, 40)}`), ...parts.map((p) => this.meter(el("span", {}, oneLine(p.name, 50)), p.share, p.text, p.color))] : [];
  }

  /** Which groups the selected nodes are in. */
  selection(selected) {
    const { model } = this;
    const size = selected.size || this.actions.numSelected || selected.indices.length;
    const drawn = selected.indices.length < size ? ` The shares below are of the ${count(selected.indices.length)} that are drawn.` : "";
    const parts = model.levels.map((groups, l) => {
      const sizes = groups.map(() => 0);
      for (const i of selected.indices) sizes[model.points["group" + (l + 1)][i]]++;
      const order = sizes.map((n, g) => [n, g]).filter(([n]) => n).sort((a, b) => b[0] - a[0]).slice(0, 8);
      return [el("h3", {}, `Level ${l + 1}`), ...order.map(([n, g]) => this.meter(this.groupLink(l + 1, g), n / selected.indices.length, percent(n / selected.indices.length), groups[g].color))];
    });
    return [
      el("p", { className: "crumb" }, "Selection"),
      el("h2", {}, selected.title === "Selection" ? "Nodes inside the lasso" : selected.title),
      el("p", {}, `${count(size)} nodes, ${percent(size / Math.max(1, model.overview.numNodes), 1)} of all.${drawn}`),
      ...parts.reverse().flat(),
      ...this.besideShares(),
      el("p", { className: "note" }, "The table below exports all of them; in a notebook, model.selection() returns them."),
    ];
  }

  /** What the colours of the map mean. */
  legend() {
    const color = this.state.values.color;
    if (color === "plain") return [];
    const told = { firm: "From orange, the undecided nodes, to blue, the firm half.", between: "From blue, in one group, to orange, half in one group and half in another.", evidence: "From orange, few links and features, to blue, plenty." }[color];
    if (told) return [el("h3", {}, "Colours"), el("p", {}, told)];
    const isLabel = color === "label";
    const classes = isLabel ? this.model.overview.labels : this.model.levels[Number(color) - 1] || [];
    const sizes = classes.map((c, i) => [isLabel ? -i : c.size, i]).sort((a, b) => b[0] - a[0]).slice(0, 60);
    const name = (i) => oneLine(classes[i].name, 40);
    const line = ([, i]) => el("li", {}, isLabel
      ? el("span", { className: "named" }, el("span", { className: "swatch", style: { background: classes[i].color } }), el("button", { className: "link", type: "button", onclick: () => this.actions.selectAttribute("label", i) }, name(i)))
      : this.groupLink(Number(color), i));
    return [el("h3", {}, isLabel ? "Colours: labels" : `Colours: groups of level ${color}`), el("ol", { className: "plain legend" }, ...sizes.map(line)), sizes.length < classes.length ? el("p", { className: "note" }, `${count(classes.length - sizes.length)} more`) : null];
  }

  group(key) {
    const { level, group } = groupOf(key);
    const g = this.model.group(level, group);
    if (!g) return [el("p", {}, "There is no such group.")];
    const top = this.model.levels.length;
    const parent = level < top ? g.parent : null;
    const strongest = Math.max(1e-9, ...g.features.map((f) => f.lift));
    const flow = level < top ? this.model.overview.flows[level - 1][group] : null;
    const elsewhere = flow ? flow.map((n, i) => [n, i]).filter(([n, i]) => n && i !== g.parent) : [];
    const below = this.model.children(level, group).sort((a, b) => b.size - a.size);
    return [
      el("p", { className: "crumb" }, `Group of level ${level}`, parent == null ? "" : " in ", parent == null ? "" : this.groupLink(level + 1, parent)),
      el("h2", { id: "groupname" }, el("span", { className: "swatch", style: { background: g.color } }), oneLine(g.name, 200)),
      el("p", {}, `${count(g.size)} nodes, ${percent(g.share, 1)} of all.`, g.label == null ? "" : ` ${percent(g.purity)} are labelled ${oneLine(g.label, 60)}.`),
      this.renameForm(level, group, g.name),
      ...this.besideShares(),
      elsewhere.length ? el("p", { className: "note" }, "Some nodes sit elsewhere: " + elsewhere.map(([n, i]) => `${count(n)} in ${oneLine(this.model.group(level + 1, i).name, 40)}`).join(", ")) : null,
      below.length ? el("h3", {}, "Made of") : null,
      ...below.map((c) => this.meter(this.groupLink(c.level, c.group), c.size / Math.max(1, g.size), count(c.size), c.color)),
      g.features.length ? el("h3", {}, "Typical features (times as often as overall)") : null,
      ...g.features.toSorted((a, b) => b.lift - a.lift).map((f) => this.meter(el("span", { title: `${percent(f.share)} of the members have it` }, oneLine(f.name, 50)), f.lift / strongest, "×" + f.lift.toFixed(1))),
      g.typical.length ? el("h3", {}, "Typical nodes") : null,
      el("ol", { className: "plain" }, ...g.typical.map((n) => el("li", {}, this.nodeLink(n.row, n.id)))),
      g.boundary.length ? el("h3", {}, "Boundary nodes") : null,
      el("ol", { className: "plain" }, ...g.boundary.map((n) => el("li", {}, this.nodeLink(n.row, n.id)))),
    ];
  }

  renameForm(level, group, name) {
    if (!this.model.source.canRename) return null;
    const input = el("input", { type: "text", id: "rename", maxlength: 200, "aria-label": "New name of the group" });
    input.value = name;
    const form = el("form", { hidden: true, onsubmit: async (event) => {
      event.preventDefault();
      try {
        await this.actions.rename(level, group, input.value);
      } catch (error) {
        showAlert(error.message);
      }
    } }, input, " ", el("button", { type: "submit" }, "Keep name"));
    const button = el("button", { type: "button", id: "renamebutton", onclick: () => { form.hidden = false; button.hidden = true; input.focus(); input.select(); } }, "Rename");
    return el("div", {}, button, form);
  }

  node(node) {
    const info = this.model.info(node.row);
    const label = info.label >= 0 ? ` Label: ${oneLine(this.model.overview.labels[info.label].name, 60)}.` : "";
    const own = this.model.group(1, info.groups[0]);
    const has = new Set(node.features);
    const shared = own ? own.features.filter((f) => has.has(f.name)) : [];
    const firm = info.firm == null ? "" : `Concentration ${info.firm.toFixed(2)} of 1, firmer than ${percent(this.model.firmerThan(info.firm))} of all nodes.`;
    const groups = node.memberships.length ? node.memberships.flatMap((row, l) => this.membership(node, info, row, l + 1)) : info.groups.flatMap((g, l) => [el("h3", {}, `Level ${l + 1}`), el("p", {}, this.groupLink(l + 1, g))]);
    return [
      el("p", { className: "crumb" }, "Node"),
      el("h2", { id: "nodename" }, oneLine(info.id, 200)),
      info.title ? el("p", {}, oneLine(info.title, 300)) : null,
      el("p", {}, `${node.degree == null ? "" : count(node.degree) + " neighbours. "}${this.model.standing(info)}${firm}${label}`),
      ...groups,
      ...this.attentionTable(node),
      node.ego.rows.length > 1 ? el("h3", {}, `Among its neighbours${node.ego.total > node.ego.rows.length ? ` (the ${node.ego.rows.length - 1} weightiest)` : ""}`) : null,
      node.ego.rows.length > 1 ? drawEgo(node, this.model, (row) => this.actions.selectNode(row)) : null,
      node.near.rows.length ? el("h3", {}, "Nearest nodes in the embedding") : null,
      el("ol", { className: "plain" }, ...node.near.rows.map((row, i) => {
        const other = this.model.info(row);
        return el("li", {}, other ? el("span", { className: "swatch", style: { background: this.model.swatch(other), "margin-top": ".35em" } }) : "", this.nodeLink(row), el("span", { className: "v" }, node.near.similar[i].toFixed(3)));
      })),
      shared.length ? el("h3", {}, "Features it shares with its fine group") : null,
      el("p", {}, ...shared.map((f) => el("span", { className: "tag" }, `${oneLine(f.name, 40)} ×${f.lift.toFixed(1)}`))),
    ];
  }

  membership(node, info, row, level) {
    const own = info.groups[level - 1];
    const order = row.map((v, g) => [v, g]).sort((a, b) => b[0] - a[0]);
    const bars = order.slice(0, 4).filter(([v], i) => i < 2 || v >= 0.02);
    const rival = order.find(([, g]) => g !== own);
    const out = [
      el("h3", {}, `Level ${level}`),
      ...bars.map(([v, g]) => this.meter(this.groupLink(level, g), v, percent(v, 1), this.model.group(level, g).color)),
    ];
    if (rival && rival[0] >= 0.05) out.push(el("p", {}, ...this.pull(node, level, own, rival[1], row)));
    return out;
  }

  /** What draws the node towards its second group. */
  pull(node, level, own, rival, row) {
    const layer = node.layers[level - 1];
    /** @type {any[]} */
    const text = [`Between ${oneLine(this.model.group(level, own).name, 40)} (${percent(row[own])}) and ${oneLine(this.model.group(level, rival).name, 40)} (${percent(row[rival])}).`];
    if (!layer) return text;
    const around = layer.rows.map((r, i) => ({ row: r, weight: layer.weight[i], info: this.model.info(r) })).filter((n) => n.row !== node.row && n.info);
    const total = around.reduce((sum, n) => sum + n.weight, 0) || 1;
    const there = around.filter((n) => n.info.groups[level - 1] === rival).sort((a, b) => b.weight - a.weight);
    if (!around.length) return [...text, " It has no neighbours: its own features place it."];
    if (!there.length) return [...text, " None of its neighbours is in the second group: its own features draw it there."];
    const weight = there.reduce((sum, n) => sum + n.weight, 0) / total;
    // A name with 0% behind it would be no reason.
    const named = there.filter((n) => n.weight / total >= 0.005).slice(0, 3);
    text.push(` ${percent(weight)} of its neighbours' weight pulls it there${named.length ? ": " : "."}`);
    named.forEach((n, i) => text.push(i ? ", " : "", this.nodeLink(n.row), ` (${percent(n.weight / total)})`));
    return text;
  }

  attentionTable(node) {
    if (node.pending) return [el("p", { className: "note" }, "Attentions are being computed…")];
    if (!node.layers.length) return this.model.overview.attentionNote ? [el("p", { className: "note" }, this.model.overview.attentionNote)] : [];
    const number = Math.min(Math.max(1, this.state.values.layer), node.layers.length);
    const layer = node.layers[number - 1];
    const switcher = el("span", { className: "modes" }, ...node.layers.map((_, i) => el("button", { type: "button", "aria-pressed": String(i + 1 === number), onclick: () => { this.state.set({ layer: i + 1 }); } }, `Layer ${i + 1}`)));
    const most = Math.max(1e-9, ...layer.node, ...layer.group);
    const bar = (kind, v) => el("span", { className: "track", title: `${kind} attention ${v.toFixed(4)}` }, el("i", { className: kind, style: { width: percent(v / most, 1) } }));
    const lines = layer.rows.slice(0, 14).map((row, i) => {
      const other = this.model.info(row);
      return el("tr", {}, el("td", {}, el("span", { className: "named" }, other ? el("span", { className: "swatch", style: { background: this.model.swatch(other) } }) : "", row === node.row ? "itself" : this.nodeLink(row))), el("td", { className: "att" }, bar("node", layer.node[i]), bar("group", layer.group[i])), el("td", { className: "n" }, percent(layer.node[i])), el("td", { className: "n" }, percent(layer.group[i])));
    });
    return [
      el("h3", {}, "Whom it listens to"),
      el("p", {}, switcher),
      el("p", { className: "key" }, el("i", { className: "node" }), "node attention", el("i", { className: "group" }), "group attention"),
      el("table", { className: "two" }, el("tbody", {}, ...lines)),
    ];
  }
}
