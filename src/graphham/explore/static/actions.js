// What the views may do to the page, and what they all need to know: the selection and the open node.
import { oneLine, showAlert } from "./dom.js";
import { groupOf } from "./state.js";

const NOTHING = { group: "", node: "", lasso: "", besidelasso: "", attribute: "" };

export class Actions {
  /** @type {import("./map.js").MapView} */ map;
  /** @type {import("./hierarchy.js").HierarchyView} */ hierarchy;
  /** @type {import("./panel.js").PanelView} */ panel;
  /** @type {import("./table.js").TableView} */ table;
  /** @type {import("./beside.js").BesideView | null} */ beside = null;

  /** @param {import("./model.js").Model} model @param {import("./state.js").State} state */
  constructor(model, state) {
    this.model = model;
    this.state = state;
    this.openNode = null;
    this.attribute = null;
    this.cache = null;
    /** How many nodes of the whole run are selected, drawn or not; null while unknown. */
    this.numSelected = null;
  }
  node() { return this.openNode; }
  selectGroup(key) { this.state.set({ ...NOTHING, group: key }); }
  /** Selects a group, or clears the selection if it is that group already and no node of it is open. */
  toggleGroup(key) {
    const { group, node } = this.state.values;
    this.selectGroup(key === group && !node ? "" : key);
  }
  selectNode(row) {
    const info = this.model.info(row);
    this.state.set({ node: info ? "id:" + info.id : "row:" + row });
  }
  selectAttribute(kind, code) { this.state.set({ ...NOTHING, attribute: `${kind}:${code}` }); }
  lasso(polygon) { this.state.set({ ...NOTHING, lasso: polygon }); }
  /** Selects the nodes inside a polygon of the map of the run beside. */
  besideLasso(polygon) { this.state.set({ ...NOTHING, besidelasso: polygon }); }
  clear() { this.state.set(NOTHING); }
  pointsChanged() {
    this.cache = null;
    this.table.draw();
  }
  async rename(level, group, name) {
    this.model.setOverview(await this.model.source.rename(level, group, name));
    await this.redraw();
  }

  /** The selected nodes: positions among those drawn, a title, a colour; null where none are. */
  selection() {
    const { group, lasso, besidelasso, attribute } = this.state.values;
    const key = [group, lasso, besidelasso, attribute, this.attribute ? this.attribute.key : "", this.model.size].join("|");
    if (!this.cache || this.cache.key !== key) this.cache = { key, value: this.findSelection(group, lasso, attribute) };
    return this.cache.value;
  }
  findSelection(group, lasso, attribute) {
    if (group) {
      const { level, group: number } = groupOf(group);
      const g = this.model.group(level, number);
      return g ? { indices: this.model.members(level, number), title: oneLine(g.name, 60), color: g.color, size: g.size } : null;
    }
    if (lasso) {
      const polygon = lasso.split(";").map((p) => p.split(",").map(Number));
      return { indices: this.model.inside(polygon), title: "Selection", color: null };
    }
    if (this.state.values.besidelasso && this.beside) {
      const rows = this.beside.inside(this.state.values.besidelasso);
      return { indices: Array.from(rows, (row) => this.model.position(row)).filter((i) => i >= 0), title: "Selection", color: null };
    }
    if (!attribute || !this.attribute || this.attribute.key !== attribute) return null;
    const { rows, title } = this.attribute;
    return { indices: Array.from(rows, (row) => this.model.position(row)).filter((i) => i >= 0), title, color: null, size: rows.length };
  }

  /** The selection as the server reads it. */
  get selectionRequest() {
    const { group, lasso, besidelasso, attribute } = this.state.values;
    return group ? { group } : lasso ? { lasso } : besidelasso ? { besideLasso: besidelasso } : attribute ? { attribute } : {};
  }
  /** Posts the selection, so that a notebook can fetch it; the response says how many nodes it has. */
  async postSelection() {
    const request = JSON.stringify(this.selectionRequest);
    this.numSelected = null;
    const response = await this.model.source.select(this.selectionRequest);
    if (!response || request !== JSON.stringify(this.selectionRequest)) return;
    this.numSelected = response.count;
    if (this.model.isWhole) return;
    this.table.draw();
    if (!this.openNode) this.panel.draw();
  }

  /** Fetches what the state names but the page does not have yet. */
  async load() {
    await this.loadNode(this.state.values.node);
    await this.loadAttribute(this.state.values.attribute);
  }
  async loadNode(key) {
    if (key && this.openNode && this.openNode.key === key) return;
    if (!key) {
      this.openNode = null;
      return;
    }
    const row = key.startsWith("row:") ? Number(key.slice(4)) : await this.model.source.find(key.slice(3));
    if (row < 0) {
      showAlert("There is no node " + oneLine(key.slice(3), 60));
      this.openNode = null;
      return;
    }
    const node = await this.model.source.node(row);
    this.model.addInfo(node.info);
    if (this.state.values.node === key) this.openNode = { ...node, key };
    if (node.pending) setTimeout(() => this.reloadNode(key), 1000);
  }
  async loadAttribute(key) {
    if (!key || (this.attribute && this.attribute.key === key)) return;
    const [kind, code] = key.split(":");
    const rows = await this.model.source.attribute(kind, Number(code));
    const label = kind === "label" ? this.model.overview.labels[Number(code)] : null;
    const told = (this.beside && this.beside.titleOf(kind, Number(code))) || { between: `The ${code}% most between groups`, evidence: "Too little to say" }[kind];
    this.attribute = { key, rows, title: told || `${kind} ${oneLine((label && label.name) || code, 60)}` };
  }
  /** Fetches a node again whose attentions were not there yet. */
  async reloadNode(key) {
    if (this.state.values.node !== key) return;
    this.openNode = null;
    await this.load();
    this.panel.draw();
    await this.map.refresh();
  }

  /** Draws everything anew: after another name, theme or map. */
  async redraw() {
    this.cache = null;
    this.panel.draw();
    this.table.draw();
    await this.hierarchy.draw();
    if (this.beside) this.beside.draw();
    await this.map.draw();
  }
  /** Draws what depends on the changed parts of the state. @param {Set<string>} changed */
  async follow(changed) {
    const has = (...names) => names.some((name) => changed.has(name));
    if (has("group", "node", "layer", "color", "lasso", "besidelasso", "attribute")) this.panel.draw();
    if (has("group", "lasso", "besidelasso", "attribute", "sort", "node")) this.table.draw();
    if (this.beside && has("group", "node", "color", "lasso", "besidelasso", "attribute", "names")) this.beside.draw();
    if (has("group", "tab")) await this.hierarchy.draw();
    if (has("names")) this.map.names.place();
    if (has("color")) await this.map.draw();
    else if (has("group", "node", "lasso", "besidelasso", "attribute", "bar", "thin")) await this.map.refresh();
  }
}
