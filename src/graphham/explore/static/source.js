// Where responses come from: the local server, or the data inside a static copy.
import { unpack } from "./binary_columns.js";

/** Sends requests to the server on this machine. */
export class ServerSource {
  canRename = true;
  formats = ["csv", "parquet"];

  async request(path, options = {}) {
    const response = await fetch(path, options);
    if (!response.ok) {
      const body = await response.json().catch(() => ({}));
      throw new Error(body.error || "the server answered " + response.status);
    }
    return response;
  }
  async json(path, options) {
    return (await this.request(path, options)).json();
  }
  async binary(path) {
    return (await this.request(path)).arrayBuffer();
  }
  post(path, body) {
    return this.request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  }
  overview() { return this.json("api/overview"); }
  mapState() { return this.json("api/map"); }
  async points() { return unpack(await this.binary("api/points")); }
  async beside() { return unpack(await this.binary("api/beside")); }
  async density() { return unpack(await this.binary("api/density")); }
  async window(x0, x1, y0, y1) { return unpack(await this.binary(`api/window?x0=${x0}&x1=${x1}&y0=${y0}&y1=${y1}`)); }
  node(row) { return this.json("api/node/" + row); }
  async find(id) { return (await this.json("api/find?id=" + encodeURIComponent(id))).row; }
  search(text) { return this.json("api/search?q=" + encodeURIComponent(text)); }
  async attribute(kind, code) { return new Uint32Array(await this.binary(`api/attribute?kind=${kind}&code=${code}`)); }
  async rename(level, group, name) { return (await this.post("api/rename", { level, group, name })).json(); }
  async select(selection) { return (await this.post("api/selection", selection)).json(); }
  async exportRows(rows, format, selection) { return (await this.post("api/export", Object.keys(selection).length ? { ...selection, format } : { rows: Array.from(rows), format })).blob(); }
}

/** Looks things up in the data of a static copy: the same queries, without a server. */
export class StaticSource {
  canRename = false;
  formats = ["csv"];

  /** @param {any} data */
  constructor(data) {
    const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
    this.summary = data.overview;
    this.nodes = unpack(bytes(data.points));
    this.details = unpack(bytes(data.details));
    this.other = data.beside ? unpack(bytes(data.beside)) : null;
  }
  async overview() { return this.summary; }
  async mapState() { return { isFinal: true, note: this.summary.map.note }; }
  async points() { return this.nodes; }
  async beside() { return this.other; }
  async density() { return null; }
  async window() { return null; }
  async select() { return null; }

  nodeInfo(rows) {
    const c = this.nodes.columns;
    const levels = this.summary.levels.map((_, l) => "group" + (l + 1));
    const pick = (values) => rows.map((r) => values[r]);
    return {
      row: rows, id: rows.map((r) => c.id.get(r)), title: rows.map((r) => (c.title ? c.title.get(r) : "")),
      groups: levels.map((name) => pick(c[name])), label: pick(c.label), firm: c.firm ? pick(c.firm) : null, between: c.between ? pick(c.between) : null, evidence: c.evidence ? pick(c.evidence) : null, x: pick(c.x), y: pick(c.y),
    };
  }
  async node(row) {
    const d = this.details.columns;
    const memberships = (this.summary.firm ? this.summary.levels : []).map((groups, l) => {
      const k = groups.length;
      return Array.from(d["membership" + (l + 1)].subarray(row * k, (row + 1) * k), (v) => v / 65535);
    });
    const layers = [];
    for (let l = 1; d[`indptr_${l}`]; l++) {
      const [a, b] = [d[`indptr_${l}`][row], d[`indptr_${l}`][row + 1]];
      const order = Array.from({ length: b - a }, (_, i) => a + i).sort((i, j) => d[`weight_${l}`][j] - d[`weight_${l}`][i]);
      const part = (name) => order.map((i) => d[`${name}_${l}`][i] / 65535);
      layers.push({ rows: order.map((i) => d[`indices_${l}`][i]), node: part("node"), group: part("group"), weight: part("weight") });
    }
    const near = d.near ? Array.from(d.near.subarray(row * this.details.meta.near, (row + 1) * this.details.meta.near)) : [];
    const similar = d.near ? Array.from(d.similar.subarray(row * this.details.meta.near, (row + 1) * this.details.meta.near)) : [];
    const around = d.indptr ? Array.from(d.indices.subarray(d.indptr[row], d.indptr[row + 1])) : [];
    const ranked = layers.length ? layers[0].rows : around;
    const rows = [row, ...ranked.filter((r) => r !== row).slice(0, 48)];
    const place = new Map(rows.map((r, i) => [r, i]));
    const edges = [];
    rows.forEach((r, i) => {
      if (!d.indptr) return;
      for (let e = d.indptr[r]; e < d.indptr[r + 1]; e++) {
        const j = place.get(d.indices[e]);
        if (j !== undefined && i < j) edges.push([i, j]);
      }
    });
    const features = [];
    if (d.feature_indptr) for (let e = d.feature_indptr[row]; e < d.feature_indptr[row + 1]; e++) features.push(d.feature_names.get(d.feature_indices[e]));
    const used = [...new Set([row, ...near, ...rows, ...layers.flatMap((v) => v.rows)])];
    return { row, memberships, degree: d.indptr ? around.length : null, near: { rows: near, similar }, layers, features, ego: { rows, edges, total: ranked.length }, info: this.nodeInfo(used) };
  }
  async find(id) {
    const ids = this.nodes.columns.id;
    for (let i = 0; i < ids.length; i++) if (ids.get(i) === id) return i;
    return -1;
  }
  async search(text) {
    const query = text.trim().toLowerCase();
    const c = this.nodes.columns;
    const hits = [];
    for (let i = 0; i < c.id.length && query; i++) {
      const id = c.id.get(i).toLowerCase();
      if (id.includes(query)) hits.push([id === query ? 0 : id.startsWith(query) ? 1 : 2, id.length, i]);
      else if (c.title && c.title.get(i).toLowerCase().includes(query)) hits.push([3, id.length, i]);
    }
    hits.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]);
    /** @type {any[]} */
    const attributes = [];
    this.summary.labels.forEach((label, code) => {
      if (query && label.name.toLowerCase().includes(query)) attributes.push({ kind: "label", code, name: label.name });
    });
    const names = this.details.columns.feature_names;
    for (let code = 0; query && names && code < names.length && attributes.length < 12; code++) {
      if (names.get(code).toLowerCase().includes(query)) attributes.push({ kind: "feature", code, name: names.get(code) });
    }
    for (const hit of attributes) hit.count = (await this.attribute(hit.kind, hit.code)).length;
    return { nodes: this.nodeInfo(hits.slice(0, 12).map((h) => h[2])), attributes };
  }
  async attribute(kind, code) {
    const rows = [];
    if (kind === "label") this.nodes.columns.label.forEach((l, i) => l === code && rows.push(i));
    const { between, evidence } = this.nodes.columns;
    const other = this.other ? this.other.columns["group" + kind.replace(/^beside/, "")] : null;
    if (other && kind.startsWith("beside")) this.other.columns.here.forEach((r, i) => r >= 0 && other[i] === code && rows.push(r));
    if (kind.startsWith("moved")) rows.push(...this.movedRows(Number(kind.slice(5))));
    if (kind === "between" && between) {
      const bar = Math.max(this.summary.between[100 - code], this.summary.leastBetween);
      between.forEach((v, i) => v >= bar && rows.push(i));
    }
    if (kind === "evidence" && evidence) evidence.forEach((v, i) => v < this.summary.thinEvidence && rows.push(i));
    const d = this.details.columns;
    if (kind === "feature" && d.feature_indptr) {
      for (let i = 0; i + 1 < d.feature_indptr.length; i++) {
        for (let e = d.feature_indptr[i]; e < d.feature_indptr[i + 1]; e++) if (d.feature_indices[e] === code) rows.push(i);
      }
    }
    return Uint32Array.from(rows);
  }
  /** Nodes that are not in the partner of their group: partners share a colour. */
  movedRows(level) {
    const [here, there] = [this.summary.levels[level - 1], this.summary.beside.levels[level - 1]];
    const { columns } = this.other;
    const plain = (g) => g.plain || g.color;
    const isMoved = (row, i) => plain(here[this.nodes.columns["group" + level][row]]) !== plain(there[columns["group" + level][i]]);
    return Array.from(columns.here, (row, i) => (row >= 0 && isMoved(row, i) ? row : -1)).filter((row) => row >= 0);
  }
  async exportRows(rows) {
    const quote = (v) => '"' + String(v).replace(/"/g, '""') + '"';
    const c = this.nodes.columns;
    const levels = this.summary.levels;
    const numbers = [["firm", "concentration"], ["between", "between"], ["evidence", "evidence"]].filter(([key]) => c[key]);
    const lines = [["id", ...levels.flatMap((_, l) => ["group_" + (l + 1), "group_name_" + (l + 1)]), ...numbers.map(([, name]) => name), "label", "map_x", "map_y"].map(quote).join(",")];
    for (const r of rows) {
      const groups = levels.flatMap((names, l) => [c["group" + (l + 1)][r], quote(names[c["group" + (l + 1)][r]].name)]);
      const label = c.label[r] >= 0 ? quote(this.summary.labels[c.label[r]].name) : "";
      lines.push([quote(c.id.get(r)), ...groups, ...numbers.map(([key]) => c[key][r]), label, c.x[r], c.y[r]].join(","));
    }
    return new Blob([lines.join("\n") + "\n"], { type: "text/csv" });
  }
}
