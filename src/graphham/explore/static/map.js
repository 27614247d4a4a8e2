// The map: WebGL points by plotly, coloured by groups, labels or a number of every node.
import { byId, oneLine, plotText, el, count, percent } from "./dom.js";
import { mixColors } from "./figure_tools.js";
import { Gestures } from "./gestures.js";
import { MapNames } from "./map_names.js";

// Boundary marks lie above the selected points, so they come later.
const ROLES = ["selected", "boundary", "thin", "new", "around", "node"];
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class MapView {
  /** @param {any} model @param {any} state @param {any} actions */
  constructor(model, state, actions) {
    this.model = model;
    this.state = state;
    this.actions = actions;
    this.root = /** @type {any} */ (byId("map")); // plotly adds to its element
    this.rows = [];
    this.mode = "pan";
    this.hasWebGL = Boolean(document.createElement("canvas").getContext("webgl"));
    this.density = null;
    this.listening = false;
    this.windowTimer = 0;
    this.windowTotal = null; // nodes of the window; none may lie there
    this.note = "";
    this.drawnSize = 0;
    const { x } = model.points;
    let [least, most] = [Infinity, -Infinity];
    for (let i = 0; i < x.length; i++) { least = Math.min(least, x[i]); most = Math.max(most, x[i]); }
    /** Width of the whole map in its own units. */
    this.extent = most > least ? most - least : 0;
    this.names = new MapNames(this, model, state);
    this.work = Promise.resolve();
    /** @type {Promise<void> | null} */
    this.waiting = null;
  }

  /** The density of all nodes lies below a sample of them, not below all nodes of a window. */
  get hasDensity() { return Boolean(this.density) && this.windowTotal !== this.model.size; }
  /** What plotly does with a drag: moving the map is not left to it. */
  get dragMode() { return this.mode === "lasso" ? "lasso" : false; }
  get pointType() { return this.hasWebGL ? "scattergl" : "scatter"; }
  /** Rings around thousands of points would hide the map; there boundary nodes are dots. */
  get isCrowded() { return this.model.size > 10000; }
  get pointSize() {
    const n = this.model.size;
    const small = n < 4000 ? 6 : n < 20000 ? 4 : 3;
    const range = this.range();
    if (!range || !this.extent || !this.model.isWhole) return small;
    // Zoomed in, few points share the window and each may be larger.
    const zoom = Math.max(1, this.extent / Math.max(1e-9, range[1] - range[0]));
    return Math.min(8, Math.round(small * zoom ** 0.4));
  }

  /** Runs one change of the plot after another: plotly cannot take two at once. */
  enqueue(work) {
    const next = this.work.then(work);
    this.work = next.catch(() => undefined);
    return next;
  }

  /** Draws everything anew: after loading, another colour, another theme. */
  draw() { return this.enqueue(() => this.drawNow()); }

  /** Brings group, selection, boundary and node marks up to date; the points stay as they are. */
  refresh() {
    // A slider moves faster than the map can be drawn: the refresh that waits draws the newest state.
    this.waiting = this.waiting || this.enqueue(async () => {
      await new Promise((done) => setTimeout(done, 0)); // the slider itself moves first
      this.waiting = null;
      await this.refreshNow();
    });
    return this.waiting;
  }

  async drawNow() {
    const color = this.state.values.color;
    const base = this.model.scale(color) ? [this.numberTrace(color)] : this.classTraces(color);
    const marks = this.marks();
    const below = this.hasDensity ? [this.densityTrace()] : [];
    this.firstBase = below.length;
    this.numBase = base.length;
    this.colors = base.map((trace) => trace.marker.color);
    base.forEach((trace, i) => Object.assign(trace.marker, { opacity: marks.opacity, color: this.colorOf(i, marks) }));
    const overlays = ROLES.map((role, i) => {
      this.rows.push(marks.parts[i].rows);
      return this.overlay(role, marks.parts[i], marks.colors[i]);
    });
    const range = this.range();
    this.drawnSize = this.pointSize;
    const layout = {
      autosize: true, showlegend: false, dragmode: this.dragMode, hovermode: "closest",
      margin: { l: 0, r: 0, t: 0, b: 0 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: css("--ink") },
      newselection: { line: { color: css("--ink"), width: 1.5, dash: "dot" } },
      xaxis: { visible: false, range: range && [range[0], range[1]], autorange: !range },
      yaxis: { visible: false, range: range && [range[2], range[3]], autorange: !range, scaleanchor: "x" },
    };
    // The notes first: they take their room before the map is measured.
    this.describe(marks);
    this.fitted = [this.root.clientWidth, this.root.clientHeight].join("x");
    await Plotly.react(this.root, [...below, ...base, ...overlays], layout, { responsive: false, displayModeBar: false, scrollZoom: false, doubleClick: false });
    if (!range) this.extent = this.root._fullLayout.xaxis.range[1] - this.root._fullLayout.xaxis.range[0];
    if (!this.listening) this.listen();
    this.names.place();
  }

  // Plotly keeps the scale of both axes equal by widening one of them when the map changes its size,
  // so the window of the address is set again.
  async resize() {
    this.fitted = [this.root.clientWidth, this.root.clientHeight].join("x");
    await Plotly.Plots.resize(this.root);
    const range = this.range();
    if (!range) return;
    this.isResizing = true; // the address keeps the window that was set
    await Plotly.relayout(this.root, { "xaxis.range": [range[0], range[1]], "yaxis.range": [range[2], range[3]] });
    this.isResizing = false;
    this.names.place();
  }

  range() {
    const parts = this.state.values.range.split(",").map(Number);
    return parts.length === 4 && parts.every(Number.isFinite) ? parts : null;
  }

  points(indices, marker, name) {
    const { x, y, row } = this.model.points;
    const px = new Float32Array(indices.length);
    const py = new Float32Array(indices.length);
    const rows = new Uint32Array(indices.length);
    indices.forEach((at, i) => { px[i] = x[at]; py[i] = y[at]; rows[i] = row[at]; });
    this.rows.push(rows);
    return { type: this.pointType, mode: "markers", name, x: px, y: py, marker, hoverinfo: "none" };
  }

  classTraces(color) {
    this.rows = this.hasDensity ? [null] : [];
    const { points, levels, overview } = this.model;
    if (color === "plain") return [this.points(Array.from(points.row, (_, i) => i), { size: this.pointSize, color: overview.colors.plain, opacity: 0.85 }, "nodes")];
    const codes = color === "label" ? points.label : points["group" + color];
    const classes = color === "label" ? overview.labels : levels[Number(color) - 1];
    const members = classes.map(() => []);
    const unknown = [];
    for (let i = 0; i < codes.length; i++) (codes[i] < 0 ? unknown : members[codes[i]]).push(i);
    const traces = [];
    if (unknown.length) traces.push(this.points(unknown, { size: this.pointSize, color: overview.colors.unknown, opacity: 0.5 }, "no label"));
    members.forEach((m, code) => {
      if (m.length) traces.push(this.points(m, { size: this.pointSize, color: classes[code].color, opacity: 0.85 }, plotText(classes[code].name)));
    });
    return traces;
  }

  numberTrace(color) {
    this.rows = this.hasDensity ? [null] : [];
    const values = this.model.points[color];
    const { title, min, max, stops } = this.model.scale(color);
    const all = Array.from(values, (_, i) => i);
    return this.points(all, { size: this.pointSize, color: Array.from(values), colorscale: stops, cmin: min, cmax: max, opacity: 0.9, colorbar: { title: { text: title }, thickness: 10, len: 0.5 } }, "nodes");
  }

  densityTrace() {
    const { columns, meta } = this.density;
    const z = [];
    for (let r = 0; r < meta.size; r++) z.push(Array.from(columns.counts.subarray(r * meta.size, (r + 1) * meta.size), (v) => (v ? Math.log1p(v) : null)));
    const step = (range) => (range[1] - range[0]) / meta.size;
    const dark = document.documentElement.dataset.theme === "dark";
    return {
      type: "heatmap", z, x0: meta.x[0] + step(meta.x) / 2, dx: step(meta.x), y0: meta.y[0] + step(meta.y) / 2, dy: step(meta.y), showscale: false, hoverinfo: "skip", opacity: 0.75,
      colorscale: dark ? [[0, "#232b33"], [1, "#8795a3"]] : [[0, "#eef1f4"], [1, "#8b98a5"]],
    };
  }

  overlay(role, part, color) {
    const ring = { line: { color: css("--mark"), width: 1.4 } };
    const marker = {
      boundary: this.isCrowded ? { size: this.pointSize } : { ...ring, size: this.pointSize + 3 },
      selected: { size: this.pointSize + 1 },
      thin: { size: this.pointSize + 2, symbol: "x-thin", line: { color: css("--mark"), width: 1.2 } },
      new: { size: 12, symbol: "diamond", line: { color: css("--mark"), width: 1.5 } },
      around: { size: this.pointSize + 5, line: { color: css("--accent"), width: 2 } },
      node: { size: 15, line: { color: css("--mark"), width: 3 } },
    }[role];
    return { type: this.pointType, mode: "markers", name: role, x: part.x, y: part.y, marker: { ...marker, color, opacity: 1 }, hoverinfo: "none" };
  }

  /** What stands out at the moment: the selected nodes, boundary nodes, neighbours, the node. */
  marks() {
    const { model, state } = this;
    const { bar: percentage, color: by } = state.values;
    const selected = this.actions.selection();
    const { between, evidence } = model.points;
    const pick = (values, isWanted) => {
      const found = [];
      for (const i of selected ? selected.indices : values.keys()) if (isWanted(values[i])) found.push(i);
      return found;
    };
    const bar = percentage > 0 && model.hasFirm ? model.barAt(percentage) : 2;
    const edge = bar < 2 ? pick(between, (v) => v >= bar) : [];
    const thin = state.values.thin && model.hasEvidence ? pick(evidence, (v) => v < model.overview.thinEvidence) : [];
    const place = (indices) => {
      const { x, y, row } = model.points;
      return { x: Float32Array.from(indices, (i) => x[i]), y: Float32Array.from(indices, (i) => y[i]), rows: Uint32Array.from(indices, (i) => row[i]) };
    };
    const infos = (rows) => {
      const known = rows.map((r) => model.info(r)).filter(Boolean);
      return { x: known.map((n) => n.x), y: known.map((n) => n.y), rows: Uint32Array.from(known, (n) => n.row) };
    };
    const node = this.actions.node();
    const clear = "rgba(0,0,0,0)";
    return {
      selected, edge, thin,
      // Where thousands overlap, faint points add up to firm ones: those fade by their colour.
      opacity: selected ? (model.scale(by) ? 0.08 : 0.5) : model.scale(by) ? 0.9 : 0.85,
      // In the order of ROLES.
      parts: [place(selected ? selected.indices : []), place(edge), place(thin), this.newPart(), infos(node ? node.ego.rows.slice(1) : []), infos(node ? [node.row] : [])],
      colors: [selected && selected.color ? selected.color : css("--accent"), this.isCrowded ? css("--mark") : clear, css("--mark"), css("--bar2"), clear, clear],
    };
  }

  /** Nodes embedded after the fit, which are in no table of the run. */
  newPart() {
    const nodes = this.model.overview.newNodes || [];
    return { x: nodes.map((n) => n.x), y: nodes.map((n) => n.y), rows: new Uint32Array(0) };
  }

  /** Colour of a class, pale while other nodes are selected. */
  colorOf(i, { selected }) {
    const color = this.colors[i];
    return selected && typeof color === "string" ? mixColors(color, css("--paper"), 0.78) : color;
  }

  async refreshNow() {
    if (!this.root.data) return;
    const marks = this.marks();
    const { parts, colors, opacity } = marks;
    const first = this.firstBase + this.numBase;
    const overlays = ROLES.map((_, i) => first + i);
    parts.forEach((p, i) => (this.rows[first + i] = p.rows));
    // One call for all traces: every call draws every point again.
    const data = this.root.data;
    const base = Array.from({ length: this.numBase }, (_, i) => this.firstBase + i);
    const fades = data[base[0]] && data[base[0]].marker.opacity !== opacity;
    const traces = fades ? [...base, ...overlays] : overlays;
    const head = fades ? base.length : 0;
    const each = (ofBase, ofOverlay) => traces.map((t, i) => (i < head ? ofBase(t) : ofOverlay(i - head)));
    await Plotly.restyle(this.root, {
      x: each((t) => data[t].x, (i) => parts[i].x),
      y: each((t) => data[t].y, (i) => parts[i].y),
      "marker.opacity": each(() => opacity, () => 1),
      "marker.color": each((t) => this.colorOf(t - this.firstBase, marks), (i) => colors[i]),
    }, traces);
    this.describe(marks);
  }

  /** Puts into words what the map shows. */
  describe({ selected, edge, thin }) {
    const { model, state } = this;
    const percentage = state.values.bar;
    this.root.dataset.selected = String(selected ? selected.indices.length : 0);
    this.root.dataset.boundary = String(edge.length);
    this.root.dataset.thin = String(thin.length);
    const here = selected ? " here" : "";
    byId("barnote").textContent = percentage > 0 ? `top ${percentage}%: ${count(edge.length)} nodes${here}` : "off";
    byId("thinnote").textContent = state.values.thin ? `${count(thin.length)} nodes${here}` : "";
    byId("barlist").hidden = !(percentage > 0);
    byId("thinlist").hidden = !state.values.thin;
    const note = model.isWhole ? "" : ` Drawn: ${count(model.size)} of ${count(this.windowTotal ?? model.overview.numNodes)} nodes${this.windowTotal !== null ? " in this window" : ", a fixed sample over the density of all"}.`;
    byId("mapnote").textContent = this.mapNote + note;
  }

  get mapNote() { return this.note || this.model.overview.map.note; }

  /** Shows another part of the map. */
  show(x, y) {
    return this.enqueue(() => Plotly.relayout(this.root, { "xaxis.range": x, "yaxis.range": y }));
  }

  listen() {
    this.listening = true;
    /** @type {number | undefined} */
    let hovered;
    new Gestures(this.root, () => this.mode === "pan", (x, y) => this.show(x, y), () => hovered !== undefined && this.actions.selectNode(hovered));
    this.root.addEventListener("dblclick", () => this.whole());
    this.root.addEventListener("wheel", () => this.names.rest(), { passive: true });
    this.root.addEventListener("pointermove", (event) => event.buttons && this.names.rest());
    // The notes below grow and shrink, and the map gives them room.
    let timer = 0;
    new ResizeObserver(() => {
      if (this.fitted === [this.root.clientWidth, this.root.clientHeight].join("x")) return;
      clearTimeout(timer);
      timer = window.setTimeout(() => this.enqueue(() => this.resize()), 60);
    }).observe(this.root);
    const tip = byId("tip");
    const rowOf = (point) => (this.rows[point.curveNumber] ? this.rows[point.curveNumber][point.pointNumber] : undefined);
    this.root.on("plotly_hover", (event) => {
      const row = rowOf(event.points[0]);
      hovered = row;
      const isNew = event.points[0].data.name === "new";
      const added = isNew ? this.model.overview.newNodes[event.points[0].pointNumber] : null;
      const info = added ? { ...added, label: -1 } : row === undefined ? null : this.model.info(row);
      if (!info) return;
      const lines = info.groups.map((g, l) => (g == null ? "" : el("div", {}, el("span", { className: "swatch", style: { background: this.model.group(l + 1, g).color } }), oneLine(this.model.group(l + 1, g).name, 40))));
      const label = info.label >= 0 ? el("div", { className: "note" }, "label: " + oneLine(this.model.overview.labels[info.label].name, 40)) : null;
      tip.replaceChildren(el("b", {}, oneLine(info.id, 60)), added ? " new" : "", info.title ? el("div", {}, oneLine(info.title, 90)) : "", ...lines, label || "", info.firm == null ? "" : el("div", { className: "note" }, this.model.standing(info) || `concentration ${info.firm.toFixed(2)}, firmer than ${percent(this.model.firmerThan(info.firm))}`));
      const box = this.root.getBoundingClientRect();
      const x = event.event.clientX - box.left;
      tip.style.left = (x > box.width - 310 ? Math.max(4, x - 310) : x + 14) + "px";
      tip.style.top = Math.min(event.event.clientY - box.top + 14, box.height - 120) + "px";
      tip.hidden = false;
    });
    this.root.on("plotly_unhover", () => {
      hovered = undefined;
      tip.hidden = true;
    });
    this.root.on("plotly_selected", (event) => {
      if (!event || !event.lassoPoints) return;
      const { x, y } = event.lassoPoints;
      const step = Math.max(1, Math.ceil(x.length / 80));
      const polygon = [];
      for (let i = 0; i < x.length; i += step) polygon.push(x[i].toFixed(3) + "," + y[i].toFixed(3));
      Plotly.relayout(this.root, { selections: [] });
      this.actions.lasso(polygon.join(";"));
    });
    this.root.on("plotly_relayout", (event) => {
      if (this.isResizing || !Object.keys(event).some((k) => k.includes("axis"))) return;
      const { xaxis, yaxis } = this.root._fullLayout;
      const reset = event["xaxis.autorange"];
      const range = reset ? "" : [...xaxis.range, ...yaxis.range].map((v) => Number(v).toFixed(4)).join(",");
      this.state.set({ range });
      this.names.place();
      if (!this.model.overview.isLarge) {
        if (this.pointSize !== this.drawnSize) this.draw();
        return;
      }
      clearTimeout(this.windowTimer);
      this.windowTimer = window.setTimeout(() => this.loadWindow(), 250);
    });
    this.root.addEventListener("keydown", (event) => {
      const { xaxis, yaxis } = this.root._fullLayout;
      const [x0, x1] = xaxis.range;
      const [y0, y1] = yaxis.range;
      const [w, h] = [x1 - x0, y1 - y0];
      const moves = { ArrowLeft: [-0.15, 0, 0], ArrowRight: [0.15, 0, 0], ArrowUp: [0, 0.15, 0], ArrowDown: [0, -0.15, 0], "+": [0, 0, -0.15], "=": [0, 0, -0.15], "-": [0, 0, 0.2] };
      const move = moves[event.key];
      if (!move) return;
      event.preventDefault();
      const [dx, dy, grow] = move;
      this.show([x0 + w * (dx - grow), x1 + w * (dx + grow)], [y0 + h * (dy - grow), y1 + h * (dy + grow)]);
    });
  }

  /** Of a large run, fetches all nodes of the window, or a stated sample of them. */
  async loadWindow() {
    const range = this.range();
    if (!range) {
      this.windowTotal = null;
      this.model.setPoints(await this.model.source.points());
    } else {
      const points = await this.model.source.window(...range);
      if (!points) return;
      this.windowTotal = points.meta.total;
      this.model.setPoints(points);
    }
    await this.draw();
    this.actions.pointsChanged();
  }

  async setMode(mode) {
    this.mode = mode;
    byId("pan").setAttribute("aria-pressed", String(mode === "pan"));
    byId("lasso").setAttribute("aria-pressed", String(mode === "lasso"));
    this.root.dataset.mode = mode;
    await this.enqueue(() => Plotly.relayout(this.root, { dragmode: this.dragMode }));
  }

  whole() {
    return this.enqueue(() => Plotly.relayout(this.root, { "xaxis.autorange": true, "yaxis.autorange": true }));
  }
}
