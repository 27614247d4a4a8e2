// The run as the page knows it: overview, the nodes that are drawn, and a few others by row.
import { lightenColor } from "./figure_tools.js";

export class Model {
  /** @param {any} source @param {any} overview @param {any} points */
  constructor(source, overview, points) {
    this.source = source;
    this.infoByRow = new Map();
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
    for (const entry of [...this.levels.flat(), ...this.overview.labels]) {
      entry.plain = entry.plain || entry.color;
      entry.color = isDark ? lightenColor(entry.plain) : entry.plain;
    }
  }
  setPoints(points) {
    this.points = points.columns;
    this.isWhole = this.points.row.length === this.overview.numNodes;
    this.positions = this.isWhole ? null : new Map(Array.from(this.points.row, (r, i) => [r, i]));
  }
  get size() { return this.points.row.length; }
  /** Position of a row among the drawn points, -1 if it is not drawn. */
  position(row) {
    if (this.isWhole) return row;
    return this.positions.has(row) ? this.positions.get(row) : -1;
  }
  addInfo(info) {
    info.row.forEach((row, i) => {
      this.infoByRow.set(row, { row, id: info.id[i], title: info.title[i], groups: info.groups.map((g) => g[i]), label: info.label[i], firm: info.firm ? info.firm[i] : null, between: info.between ? info.between[i] : null, evidence: info.evidence ? info.evidence[i] : null, x: info.x[i], y: info.y[i] });
    });
  }
  /** Id, title, groups, label, concentration and place of a row, if the page has them. */
  info(row) {
    const i = this.position(row);
    if (i < 0 || i === undefined || i >= this.size) return this.infoByRow.get(row);
    const c = this.points;
    return { row, id: c.id.get(i), title: c.title ? c.title.get(i) : "", groups: this.levels.map((_, l) => c["group" + (l + 1)][i]), label: c.label[i], firm: c.firm ? c.firm[i] : null, between: c.between ? c.between[i] : null, evidence: c.evidence ? c.evidence[i] : null, x: c.x[i], y: c.y[i] };
  }
  /** Whether the method says how firmly nodes belong to groups. */
  get hasFirm() { return Boolean(this.overview.firm); }
  /** Groups per level that are the shown group of at least one node: the one count of groups. */
  get groupsInUse() { return this.levels.map((groups) => groups.filter((g) => g.size > 0).length); }
  /** The coarsest level that tells nodes apart: one group of everything does not. */
  get topLevel() {
    const told = this.groupsInUse.map((count, l) => (count > 1 ? l + 1 : 0));
    return Math.max(...told) || this.levels.length;
  }
  /** What the map is coloured by before anybody chooses. */
  get usualColor() { return this.levels.length ? String(this.topLevel) : this.overview.labels.length ? "label" : "plain"; }
  /** The colour of a node wherever it is named: that of its fine group, its label, or grey. */
  swatch(info) {
    const one = this.group(1, info.groups[0]) || this.overview.labels[info.label];
    return one ? one.color : this.overview.colors.unknown;
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
  /** Share of all nodes that commit less than this, in whole percents rounded down. */
  firmerThan(value) {
    const q = this.overview.firm;
    let i = 0;
    while (i < q.length && q[i] < value) i++;
    return Math.max(0, i - 1) / (q.length - 1);
  }
  /** Score from which on a node is one of the given percentage most between two groups. */
  barAt(percentage) {
    return Math.max(this.overview.between[100 - Math.round(percentage)], this.overview.leastBetween);
  }
  /** Whether the method says how much there is to go by. */
  get hasEvidence() { return this.overview.thinEvidence != null; }
  /** How a number of every node is coloured, orange standing for the nodes to look at; null for classes.
   * @param {string} color */
  scale(color) {
    const q = this.overview.firm;
    const stops = this.overview.colors.firm;
    const turned = stops.map(([at], i) => [at, stops[stops.length - 1 - i][1]]);
    if (!q || !this.points[color]) return null;
    return { firm: { title: "concentration", min: q[1], max: q[75] + 1e-9, stops }, between: { title: "between groups", min: 0, max: 1, stops: turned }, evidence: { title: "evidence", min: 0, max: 1, stops } }[color] || null;
  }
  /** What is to be said about where a node lies: between groups, or too little to say. */
  standing(info) {
    if (info.between == null) return "";
    const lies = info.between >= this.overview.leastBetween ? `Between two groups: ${info.between.toFixed(2)} (1 is half and half). ` : "";
    const thin = info.evidence != null && info.evidence < this.overview.thinEvidence;
    return lies + (thin ? `Too little to say: evidence ${info.evidence.toFixed(2)} of 1. ` : "");
  }
}
