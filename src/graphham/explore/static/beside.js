// Another run on a map of its own: what is chosen in either map is marked in both.
import { byId, count, el, oneLine, percent, showAlert } from "./dom.js";
import { lightenColor, mixColors } from "./figure_tools.js";
import { densestSpots } from "./map_names.js";

const NEAR_PIXELS = 9;
const MOST_BESIDE_NAMES = 14;
const ink = (/** @type {string} */ name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class BesideView {
  /** @param {any} model @param {any} state @param {any} actions @param {any} points columns of the other run */
  constructor(model, state, actions, points) {
    this.model = model;
    this.state = state;
    this.actions = actions;
    this.about = model.overview.beside;
    this.points = points.columns;
    this.levels = this.about.levels;
    this.root = byId("beside");
    this.canvas = /** @type {HTMLCanvasElement} */ (byId("besidemap"));
    this.pen = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    this.byRow = new Map();
    this.points.here.forEach((row, i) => row >= 0 && this.byRow.set(row, i));
    this.spots = this.levels.map((_, l) => densestSpots(this, l + 1));
    /** @type {number[][]} */
    this.outline = [];
    /** @type {{box: number[], key: string}[]} */
    this.named = [];
    this.root.hidden = false;
    document.documentElement.dataset.beside = "yes";
    this.head();
    this.whole();
    this.listen();
  }

  /** The level whose groups are shown: the one that colours the run's own map, where there is one. */
  get level() {
    const asked = Number(this.state.values.color);
    return Math.min(Number.isInteger(asked) && asked > 0 ? asked : this.levels.length, this.levels.length);
  }

  head() {
    const { about } = this;
    byId("besidename").textContent = "Beside: " + oneLine(about.name, 40);
    const only = about.numNodes - about.numShared;
    const agree = about.agreement.length ? ` Agreement of the groups (adjusted Rand index, 1 is the same): ${about.agreement.map((v, l) => `level ${l + 1} ${v.toFixed(2)}`).join(", ")}.` : "";
    byId("besidenote").textContent = `${count(about.numShared)} nodes in both, ${count(only)} only here${only ? " (diamonds)" : ""}. Partner groups share a colour; grey groups have none.${agree} ${about.note}`;
    const choose = /** @type {HTMLSelectElement} */ (byId("besidegroup"));
    const options = /** @type {HTMLElement[]} */ ([el("option", { value: "" }, "Choose a group…")]);
    about.moved.forEach((n, l) => options.push(el("option", { value: `moved${l + 1}:0` }, `Moved on level ${l + 1}: ${count(n)} nodes`)));
    for (let l = this.levels.length; l > 0; l--) {
      const groups = this.levels[l - 1].map((g, i) => ({ ...g, i })).filter((g) => g.size).sort((a, b) => b.size - a.size);
      options.push(el("optgroup", { label: `Level ${l}` }, ...groups.map((g) => el("option", { value: `beside${l}:${g.i}` }, `${oneLine(g.name, 40)} (${count(g.size)})`))));
    }
    choose.replaceChildren(...options);
    choose.hidden = !this.levels.length;
    choose.addEventListener("change", () => this.choose(choose.value));
  }

  /** Selects nodes of the run by where they are in the other one. @param {string} key */
  choose(key) {
    const [kind, code] = key.split(":");
    if (key) this.actions.selectAttribute(kind, Number(code));
    else this.actions.clear();
  }

  /** What a selection made here is called; empty for all others. @param {string} kind @param {number} code */
  titleOf(kind, code) {
    const level = Number(kind.replace(/^\D+/, ""));
    if (kind.startsWith("moved")) return `Moved on level ${level}`;
    const group = kind.startsWith("beside") ? this.levels[level - 1][code] : null;
    return group ? `${oneLine(group.name, 50)} in ${oneLine(this.about.name, 30)}` : "";
  }

  whole() {
    const { x, y } = this.points;
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < x.length; i++) { x0 = Math.min(x0, x[i]); x1 = Math.max(x1, x[i]); y0 = Math.min(y0, y[i]); y1 = Math.max(y1, y[i]); }
    this.box = [x0, x1, y0, y1];
    this.zoom = 1;
    this.middle = [(x0 + x1) / 2, (y0 + y1) / 2];
  }

  /** Pixels per unit of the map. */
  get scale() {
    const [x0, x1, y0, y1] = this.box;
    return this.zoom * 0.94 * Math.min(this.canvas.clientWidth / (x1 - x0 || 1), this.canvas.clientHeight / (y1 - y0 || 1));
  }
  toPixel(x, y) { return [this.canvas.clientWidth / 2 + (x - this.middle[0]) * this.scale, this.canvas.clientHeight / 2 - (y - this.middle[1]) * this.scale]; }
  toMap(px, py) { return [this.middle[0] + (px - this.canvas.clientWidth / 2) / this.scale, this.middle[1] - (py - this.canvas.clientHeight / 2) / this.scale]; }

  /** Marks of the present selection, one per point: 1 where the same node is selected in the run. */
  selected() {
    const selection = this.actions.selection();
    if (!selection) return null;
    const marks = new Uint8Array(this.points.x.length);
    const { row } = this.model.points;
    for (const at of selection.indices) {
      const i = this.byRow.get(row[at]);
      if (i !== undefined) marks[i] = 1;
    }
    return marks;
  }

  colors() {
    const by = this.state.values.color === "label" ? this.model.overview.labels : this.levels[this.level - 1];
    const codes = this.state.values.color === "label" ? this.points.label : this.points["group" + this.level];
    const plain = this.model.overview.colors;
    const shown = (color) => (this.model.isDark ? lightenColor(color) : color);
    return { codes, colors: (by || []).map((g) => shown(g.plain || g.color)), unknown: shown(by ? plain.unknown : plain.plain) };
  }

  draw() {
    const { canvas, pen, points } = this;
    const [width, height, ratio] = [canvas.clientWidth, canvas.clientHeight, window.devicePixelRatio || 1];
    if (!width || !height) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const marks = this.selected();
    const { codes, colors, unknown } = this.colors();
    const paper = ink("--paper");
    const faded = colors.map((c) => mixColors(c, paper, 0.78));
    const fadedUnknown = mixColors(unknown, paper, 0.78);
    const size = points.x.length < 4000 ? 5 : 3;
    const dot = (i, color, grow) => {
      const [px, py] = this.toPixel(points.x[i], points.y[i]);
      if (px < -9 || py < -9 || px > width + 9 || py > height + 9) return;
      pen.fillStyle = color;
      if (points.here[i] >= 0) {
        if (size === 3) return pen.fillRect(px - (size + grow) / 2, py - (size + grow) / 2, size + grow, size + grow);
        pen.beginPath();
        pen.arc(px, py, (size + grow) / 2 + 0.4, 0, 2 * Math.PI);
        return pen.fill();
      }
      const r = size + 1; // a node that only this run has
      pen.beginPath();
      pen.moveTo(px, py - r); pen.lineTo(px + r, py); pen.lineTo(px, py + r); pen.lineTo(px - r, py);
      pen.closePath();
      pen.fill();
      pen.strokeStyle = ink("--mark");
      pen.stroke();
    };
    let numMarked = 0;
    for (let i = 0; i < points.x.length; i++) {
      const code = codes ? codes[i] : -1;
      if (!marks) dot(i, code < 0 ? unknown : colors[code], 0);
      else if (!marks[i]) dot(i, code < 0 ? fadedUnknown : faded[code], 0);
    }
    if (marks) for (let i = 0; i < points.x.length; i++) {
      if (!marks[i]) continue;
      numMarked++;
      const code = codes ? codes[i] : -1;
      dot(i, code < 0 ? unknown : colors[code], 2);
    }
    canvas.dataset.selected = String(numMarked);
    this.ring();
    this.names(width, height);
    if (this.outline.length) {
      pen.setLineDash([4, 3]);
      pen.strokeStyle = ink("--ink");
      pen.beginPath();
      this.outline.forEach(([px, py], k) => (k ? pen.lineTo(px, py) : pen.moveTo(px, py)));
      pen.stroke();
      pen.setLineDash([]);
    }
    const { attribute } = this.state.values;
    /** @type {HTMLSelectElement} */ (byId("besidegroup")).value = /^(beside|moved)/.test(attribute) ? attribute : "";
  }

  /** The open node, where this run has it. */
  ring() {
    const node = this.actions.node();
    const at = node ? this.byRow.get(node.row) : undefined;
    this.canvas.dataset.node = at === undefined ? "" : this.points.id.get(at);
    if (at === undefined) return;
    const [px, py] = this.toPixel(this.points.x[at], this.points.y[at]);
    this.pen.lineWidth = 3;
    this.pen.strokeStyle = ink("--mark");
    this.pen.beginPath();
    this.pen.arc(px, py, 8, 0, 2 * Math.PI);
    this.pen.stroke();
    this.pen.lineWidth = 1;
  }

  names(width, height) {
    this.named = [];
    if (!this.state.values.names || !this.levels.length) return;
    const { pen, level } = this;
    pen.font = "600 12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    const order = this.levels[level - 1].map((g, i) => [g.size, i]).filter(([n, i]) => n && this.spots[level - 1][i]).sort((a, b) => b[0] - a[0]);
    for (const [, i] of order) {
      if (this.named.length >= MOST_BESIDE_NAMES) break;
      const [px, py] = this.toPixel(...this.spots[level - 1][i]);
      if (px < 0 || py < 0 || px > width || py > height) continue;
      const text = oneLine(this.levels[level - 1][i].name, 30);
      const w = pen.measureText(text).width;
      const left = Math.max(2, Math.min(width - w - 2, px - w / 2));
      const box = [left - 3, py - 9, left + w + 3, py + 9];
      if (this.named.some(({ box: b }) => box[0] < b[2] && box[2] > b[0] && box[1] < b[3] && box[3] > b[1])) continue;
      this.named.push({ box, key: `beside${level}:${i}` });
      pen.lineWidth = 4;
      pen.strokeStyle = ink("--paper");
      pen.strokeText(text, left, py);
      pen.fillStyle = ink("--ink");
      pen.fillText(text, left, py);
      pen.lineWidth = 1;
    }
  }

  /** The point under a place of the canvas, -1 for none. */
  nearest(px, py) {
    const [x, y] = this.toMap(px, py);
    let [best, least] = [-1, (NEAR_PIXELS / this.scale) ** 2];
    for (let i = 0; i < this.points.x.length; i++) {
      const away = (this.points.x[i] - x) ** 2 + (this.points.y[i] - y) ** 2;
      if (away < least) [best, least] = [i, away];
    }
    return best;
  }

  tell(event) {
    const tip = byId("tip");
    const box = this.canvas.getBoundingClientRect();
    const i = this.nearest(event.clientX - box.left, event.clientY - box.top);
    this.canvas.style.cursor = i >= 0 ? "pointer" : "";
    tip.hidden = i < 0;
    if (i < 0) return;
    const lines = this.levels.map((groups, l) => el("div", {}, oneLine(groups[this.points["group" + (l + 1)][i]].name, 40)));
    const here = this.points.here[i] >= 0 ? null : el("div", { className: "note" }, `only in ${oneLine(this.about.name, 30)}`);
    tip.replaceChildren(el("b", {}, oneLine(this.points.id.get(i), 60)), ...lines, ...(here ? [here] : []));
    const around = byId("center").getBoundingClientRect();
    tip.style.left = Math.min(event.clientX - around.left + 14, around.width - 220) + "px";
    tip.style.top = event.clientY - around.top + 14 + "px";
  }

  click(px, py) {
    const i = this.nearest(px, py);
    if (i >= 0) {
      if (this.points.here[i] >= 0) this.actions.selectNode(this.points.here[i]);
      else showAlert(`${oneLine(this.points.id.get(i), 60)} is only in ${oneLine(this.about.name, 40)}`);
      return;
    }
    const hit = this.named.find(({ box }) => px >= box[0] && px <= box[2] && py >= box[1] && py <= box[3]);
    if (hit) this.choose(hit.key === this.state.values.attribute ? "" : hit.key);
  }

  zoomAt(factor, px, py) {
    const [x, y] = this.toMap(px, py);
    this.zoom = Math.max(0.8, Math.min(200, this.zoom * factor));
    const [nx, ny] = this.toMap(px, py);
    this.middle = [this.middle[0] + x - nx, this.middle[1] + y - ny];
    this.draw();
  }

  listen() {
    const { canvas } = this;
    /** @type {{x: number, y: number, moved: boolean} | null} */
    let held = null;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      const [x, y] = at(event);
      held = { x, y, moved: false };
      canvas.setPointerCapture(event.pointerId);
      byId("tip").hidden = true;
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!held) return this.tell(event);
      const [x, y] = at(event);
      if (!held.moved && Math.hypot(x - held.x, y - held.y) < 4) return;
      if (this.actions.map.mode === "lasso") {
        if (!held.moved) this.outline = [[held.x, held.y]];
        this.outline.push([x, y]);
      } else {
        this.middle = [this.middle[0] - (x - held.x) / this.scale, this.middle[1] + (y - held.y) / this.scale];
        [held.x, held.y] = [x, y];
      }
      held.moved = true;
      this.draw();
    });
    canvas.addEventListener("pointerup", (event) => {
      const wasHeld = held;
      held = null;
      if (wasHeld && !wasHeld.moved) return this.click(...at(event));
      if (this.outline.length < 3) return;
      const step = Math.max(1, Math.ceil(this.outline.length / 80));
      const corners = this.outline.filter((_, i) => i % step === 0).map(([px, py]) => this.toMap(px, py).map((v) => v.toFixed(3)).join(","));
      this.outline = [];
      this.actions.besideLasso(corners.join(";"));
    });
    canvas.addEventListener("pointerleave", () => (byId("tip").hidden = true));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomAt(Math.exp(-event.deltaY * 0.0015), ...at(event));
    }, { passive: false });
    canvas.addEventListener("dblclick", () => { this.whole(); this.draw(); });
    canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [-0.15, 0], ArrowRight: [0.15, 0], ArrowUp: [0, 0.15], ArrowDown: [0, -0.15] };
      const zooms = { "+": 1.4, "=": 1.4, "-": 1 / 1.4 };
      const { clientWidth: w, clientHeight: h } = canvas;
      if (moves[event.key]) {
        const [dx, dy] = moves[event.key];
        this.middle = [this.middle[0] + (dx * w) / this.scale, this.middle[1] + (dy * h) / this.scale];
        this.draw();
      } else if (zooms[event.key]) this.zoomAt(zooms[event.key], w / 2, h / 2);
      else return;
      event.preventDefault();
    });
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  /** Rows of the run inside a polygon of this map, of those that are drawn. @param {string} text */
  inside(text) {
    const polygon = text.split(";").map((p) => p.split(",").map(Number));
    const found = this.model.inside.call({ points: this.points }, polygon);
    return Uint32Array.from(found.map((i) => this.points.here[i]).filter((row) => row >= 0));
  }

  /** Where the selected nodes are in this run: its commonest groups among them. */
  shares() {
    const marks = this.selected();
    if (!marks || !this.levels.length) return [];
    const groups = this.levels[this.level - 1];
    const counts = groups.map(() => 0);
    let total = 0;
    marks.forEach((is, i) => { if (is) { counts[this.points["group" + this.level][i]]++; total++; } });
    return counts.map((n, g) => ({ n, name: groups[g].name, color: groups[g].color, share: n / Math.max(1, total), text: percent(n / Math.max(1, total)) })).filter((part) => part.n).sort((a, b) => b.n - a.n).slice(0, 6);
  }
}
