// Names of groups on the map: coarse ones far out, fine ones when zoomed in, never over one another.
import { el, oneLine } from "./dom.js";

const CELLS = 24;
const AROUND = 2;
const MOST_NAMES = 40;
// Zooming in by this factor shows the next finer level.
const FINER_AT = 2;
const REST_AFTER = 450;

/** The densest spot of each group of a level, in units of the map; null where nothing is drawn.
 * @param {any} model @param {number} level */
export function densestSpots(model, level) {
  const { x, y } = model.points;
  const codes = model.points["group" + level];
  const groups = model.levels[level - 1];
  const boxes = groups.map(() => [Infinity, -Infinity, Infinity, -Infinity]);
  for (let i = 0; i < codes.length; i++) {
    const b = boxes[codes[i]];
    b[0] = Math.min(b[0], x[i]); b[1] = Math.max(b[1], x[i]); b[2] = Math.min(b[2], y[i]); b[3] = Math.max(b[3], y[i]);
  }
  // Members per cell of a grid over each group; a name belongs where many cells side by side are full, not on one
  // clump, so the mean place of the members in and around the best cell counts. The report does the same.
  const place = (i) => {
    const b = boxes[codes[i]];
    const at = (v, low, high) => Math.min(CELLS - 1, Math.floor(((v - low) / (high - low || 1)) * CELLS));
    return [at(x[i], b[0], b[1]), at(y[i], b[2], b[3])];
  };
  const counts = groups.map(() => new Uint32Array(CELLS * CELLS));
  for (let i = 0; i < codes.length; i++) {
    const [column, row] = place(i);
    counts[codes[i]][row * CELLS + column]++;
  }
  const best = counts.map(fullestPart);
  const sums = groups.map(() => [0, 0, 0]);
  for (let i = 0; i < codes.length; i++) {
    const [column, row] = place(i);
    const [c, r] = best[codes[i]];
    if (Math.abs(column - c) > AROUND || Math.abs(row - r) > AROUND) continue;
    const s = sums[codes[i]];
    s[0] += x[i]; s[1] += y[i]; s[2]++;
  }
  return sums.map(([sx, sy, n]) => (n ? [sx / n, sy / n] : null));
}

/** Column and row of the cell with the most members in and around it. @param {Uint32Array} counts */
function fullestPart(counts) {
  let most = -1;
  let best = [0, 0];
  for (let row = 0; row < CELLS; row++) {
    for (let column = 0; column < CELLS; column++) {
      let sum = 0;
      for (let r = Math.max(0, row - AROUND); r <= Math.min(CELLS - 1, row + AROUND); r++) {
        for (let c = Math.max(0, column - AROUND); c <= Math.min(CELLS - 1, column + AROUND); c++) sum += counts[r * CELLS + c];
      }
      if (sum > most) [most, best] = [sum, [column, row]];
    }
  }
  return best;
}

export class MapNames {
  /** @param {any} map the view of the map @param {any} model @param {any} state */
  constructor(map, model, state) {
    this.map = map;
    this.model = model;
    this.state = state;
    this.layer = el("div", { id: "mapnames", "aria-hidden": "true" });
    this.spots = new Map();
    this.points = null;
    this.timer = 0;
  }

  /** Hides the names while the picture moves under them. */
  rest() {
    this.layer.hidden = true;
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.place(), REST_AFTER);
  }

  /** The level to name at the present zoom. */
  get level() {
    const { xaxis } = this.map.root._fullLayout;
    const span = Math.abs(xaxis.range[1] - xaxis.range[0]) || 1;
    const steps = Math.floor(Math.log(Math.max(1, (this.map.extent || span) / span)) / Math.log(FINER_AT) + 1e-6);
    return Math.max(1, this.model.topLevel - steps);
  }

  /** Writes the names of the window, the largest groups first; a name that finds no room is left out. */
  place() {
    const { root } = this.map;
    const isWanted = Boolean(this.state.values.names) && this.model.levels.length > 0 && root._fullLayout;
    this.layer.hidden = !isWanted;
    if (!isWanted) return;
    if (this.layer.parentElement !== root) root.append(this.layer);
    if (this.points !== this.model.points) this.spots.clear();
    this.points = this.model.points;
    const level = this.level;
    if (!this.spots.has(level)) this.spots.set(level, densestSpots(this.model, level));
    const spots = this.spots.get(level);
    const { xaxis, yaxis } = root._fullLayout;
    const groups = this.model.levels[level - 1];
    const order = groups.map((g, i) => [g.size, i]).filter(([size, i]) => size > 0 && spots[i]).sort((a, b) => b[0] - a[0]);
    this.layer.replaceChildren();
    this.layer.dataset.level = String(level);
    const taken = [];
    for (const [, i] of order) {
      if (taken.length >= MOST_NAMES) break;
      const [px, py] = [xaxis._offset + xaxis.l2p(spots[i][0]), yaxis._offset + yaxis.l2p(spots[i][1])];
      if (px < 0 || py < 0 || px > root.clientWidth || py > root.clientHeight) continue;
      const name = el("span", { "data-group": `${level}-${i}` }, oneLine(groups[i].name, 34));
      this.layer.append(name);
      const [w, h] = [name.offsetWidth, name.offsetHeight];
      const left = Math.max(2, Math.min(root.clientWidth - w - 2, px - w / 2));
      // Where the spot is taken, a line or two above or below will do.
      const box = [0, -1, 1, -2, 2].map((lines) => {
        const top = Math.max(2, Math.min(root.clientHeight - h - 2, py - h / 2 + lines * (h + 5)));
        return [left - 3, top - 2, left + w + 3, top + h + 2];
      }).find((b) => !taken.some((t) => b[0] < t[2] && b[2] > t[0] && b[1] < t[3] && b[3] > t[1]));
      if (!box) {
        name.remove();
        continue;
      }
      taken.push(box);
      name.style.left = box[0] + 3 + "px";
      name.style.top = box[1] + 2 + "px";
    }
  }
}
