// The run as the page knows it: overview, the nodes that are drawn, and a few others by row.

/** Returns a colour that shows on black: as it is, or lighter. @param {string} color */
export function lightened(color) {
  const parts = [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
  const bright = (0.3 * parts[0] + 0.59 * parts[1] + 0.11 * parts[2]) / 255;
  if (bright >= 0.42) return color;
  const share = (0.42 - bright) / (1 - bright);
  return "#" + parts.map((v) => Math.round(v + (255 - v) * share).toString(16).padStart(2, "0")).join("");
}

export class Model {
  /** @param {any} source @param {any} overview @param {any} points */
  constructor(source, overview, points) {
    this.source = source;
    this.known = new Map();
    this.isDark = document.documentElement.dataset.theme === "dark";
    this.setOverview(overview);
    this.setPoints(points);
  }
  setOverview(overview) {
    this.overview = overview;
    this.levels = overview.levels;
    this.setTheme(this.isDark);
  }
  /** Lightens the deep colours where the page is dark: they would vanish there.
   * @param {boolean} isDark */
  setTheme(isDark) {
    this.isDark = isDark;
    for (const one of [...this.levels.flat(), ...this.overview.labels]) {
      one.plain = one.plain || one.color;
      one.color = isDark ? lightened(one.plain) : one.plain;
    }
  }
  setPoints(points) {
    this.points = points.columns;
    this.total = points.meta.total;
    this.isWhole = this.points.row.length === this.overview.numNodes;
    this.place = this.isWhole ? null : new Map(Array.from(this.points.row, (r, i) => [r, i]));
  }
  get size() { return this.points.row.length; }
  /** Position of a row among the drawn points, -1 if it is not drawn. */
  at(row) {
    if (this.isWhole) return row;
    return this.place.has(row) ? this.place.get(row) : -1;
  }
  learn(about) {
    about.row.forEach((row, i) => {
      this.known.set(row, { row, id: about.id[i], title: about.title[i], groups: about.groups.map((g) => g[i]), label: about.label[i], firm: about.firm[i], x: about.x[i], y: about.y[i] });
    });
  }
  /** What is known about a row. */
  info(row) {
    const i = this.at(row);
    if (i < 0 || i === undefined || i >= this.size) return this.known.get(row);
    const c = this.points;
    return { row, id: c.id.get(i), title: c.title ? c.title.get(i) : "", groups: this.levels.map((_, l) => c["group" + (l + 1)][i]), label: c.label[i], firm: c.firm[i], x: c.x[i], y: c.y[i] };
  }
  group(level, group) { return this.levels[level - 1] && this.levels[level - 1][group]; }
  children(level, group) {
    if (level < 2) return [];
    return this.levels[level - 2].map((g, i) => ({ ...g, level: level - 1, group: i })).filter((g) => g.parent === group);
  }
  /** Positions of the drawn nodes of a group. */
  members(level, group) {
    const codes = this.points["group" + level];
    const out = [];
    for (let i = 0; i < codes.length; i++) if (codes[i] === group) out.push(i);
    return out;
  }
  /** Positions of the drawn nodes inside a polygon of map places. */
  inside(polygon) {
    const { x, y } = this.points;
    const out = [];
    const n = polygon.length;
    for (let i = 0; i < x.length; i++) {
      let is = false;
      for (let a = 0, b = n - 1; a < n; b = a++) {
        const [ax, ay] = polygon[a];
        const [bx, by] = polygon[b];
        if (ay > y[i] !== by > y[i] && x[i] < ((bx - ax) * (y[i] - ay)) / (by - ay) + ax) is = !is;
      }
      if (is) out.push(i);
    }
    return out;
  }
  /** Share of all nodes that commit less than this. */
  firmerThan(value) {
    const q = this.overview.firm;
    let i = 0;
    while (i < q.length && q[i] < value) i++;
    return Math.min(1, i / (q.length - 1));
  }
  /** Concentration below which the given percentage of nodes lies. */
  barAt(percentage) {
    return this.overview.firm[Math.round(percentage)];
  }
}
