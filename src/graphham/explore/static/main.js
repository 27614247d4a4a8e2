// Puts the views together: one state, every view follows it.
import { byId, shown, el, count, say } from "./dom.js";
import { ServerSource, StaticSource } from "./source.js";
import { State, groupOf } from "./state.js";
import { Model } from "./model.js";
import { breathe, loadPlotly, paintFirst, unpaint } from "./paint.js";
import { MapView } from "./map.js";
import { HierarchyView } from "./hierarchy.js";
import { PanelView } from "./panel.js";
import { TableView } from "./table.js";
import { SearchView } from "./search.js";

/** What the views may do to the page and ask about it. */
class Actions {
  /** @type {MapView} */ map;
  /** @type {HierarchyView} */ hierarchy;
  /** @type {PanelView} */ panel;
  /** @type {TableView} */ table;

  constructor(model, state) {
    this.model = model;
    this.state = state;
    this.shownNode = null;
    this.attribute = null;
    this.cache = null;
    /** How many nodes of the whole run are chosen, drawn or not; null while unknown. */
    this.total = null;
  }
  node() { return this.shownNode; }
  selectGroup(key) { this.state.set({ group: key, node: "", lasso: "", attribute: "" }); }
  selectNode(row) {
    const info = this.model.info(row);
    this.state.set({ node: info ? "id:" + info.id : "row:" + row });
  }
  selectAttribute(kind, code) { this.state.set({ attribute: `${kind}:${code}`, group: "", lasso: "", node: "" }); }
  lasso(polygon) { this.state.set({ lasso: polygon, group: "", attribute: "", node: "" }); }
  clear() { this.state.set({ group: "", node: "", lasso: "", attribute: "" }); }
  pointsChanged() {
    this.cache = null;
    this.table.draw();
  }
  async rename(level, group, name) {
    this.model.setOverview(await this.model.source.rename(level, group, name));
    this.cache = null;
    await this.redraw();
  }

  /** The nodes that stand out at the moment: positions among those drawn, a title, a colour. */
  chosen() {
    const { group, lasso, attribute } = this.state.values;
    const key = [group, lasso, attribute, this.attribute ? this.attribute.key : "", this.model.size].join("|");
    if (this.cache && this.cache.key === key) return this.cache.value;
    let value = null;
    if (group) {
      const { level, group: number } = groupOf(group);
      const g = this.model.group(level, number);
      if (g) value = { indices: this.model.members(level, number), title: shown(g.name, 60), color: g.color, size: g.size };
    } else if (lasso) {
      const polygon = lasso.split(";").map((p) => p.split(",").map(Number));
      value = { indices: this.model.inside(polygon), title: "Selection", color: null };
    } else if (attribute && this.attribute && this.attribute.key === attribute) {
      const indices = [];
      for (const row of this.attribute.rows) {
        const i = this.model.at(row);
        if (i >= 0) indices.push(i);
      }
      value = { indices, title: this.attribute.title, color: null, size: this.attribute.rows.length };
    }
    this.cache = { key, value };
    return value;
  }

  /** What is chosen, in the words that the server understands. */
  get asked() {
    const { group, lasso, attribute } = this.state.values;
    return group ? { group } : lasso ? { lasso } : attribute ? { attribute } : {};
  }
  /** Tells the server what is chosen, so that a notebook can fetch it; learns how many that are. */
  async tell() {
    const asked = JSON.stringify(this.asked);
    this.total = null;
    const found = await this.model.source.choose(this.asked);
    if (!found || asked !== JSON.stringify(this.asked)) return;
    this.total = found.count;
    if (this.model.isWhole) return;
    this.table.draw();
    if (!this.shownNode) this.panel.draw();
  }

  /** Fetches what the state names but the page does not hold yet. */
  async load() {
    const { node, attribute } = this.state.values;
    if (!node) this.shownNode = null;
    else if (!this.shownNode || this.shownNode.key !== node) {
      const row = node.startsWith("row:") ? Number(node.slice(4)) : await this.model.source.find(node.slice(3));
      if (row < 0) {
        say("There is no node " + shown(node.slice(3), 60));
        this.shownNode = null;
      } else {
        const found = await this.model.source.node(row);
        this.model.learn(found.about);
        if (this.state.values.node === node) this.shownNode = { ...found, key: node };
        if (found.pending) setTimeout(() => this.again(node), 1000);
      }
    }
    if (attribute && (!this.attribute || this.attribute.key !== attribute)) {
      const [kind, code] = attribute.split(":");
      const rows = await this.model.source.attribute(kind, Number(code));
      const name = kind === "label" && this.model.overview.labels[Number(code)] ? this.model.overview.labels[Number(code)].name : "";
      this.attribute = { key: attribute, rows, title: `${kind} ${shown(name || code, 60)}` };
    }
  }
  /** Asks once more about a node whose attentions were not there yet. */
  async again(node) {
    if (this.state.values.node !== node) return;
    this.shownNode = null;
    await this.load();
    this.panel.draw();
    await this.map.refresh();
  }
  async redraw() {
    this.panel.draw();
    this.table.draw();
    await this.hierarchy.draw();
    await this.map.draw();
  }
}

/** @param {Model} model @param {() => void} redraw */
function startTheme(model, redraw) {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const set = (/** @type {boolean} */ isDark) => {
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
    model.setTheme(isDark);
  };
  set(dark.matches);
  dark.addEventListener("change", () => { set(dark.matches); redraw(); });
  byId("theme").addEventListener("click", () => { set(!model.isDark); redraw(); });
}

function fillColors(model, state) {
  const select = /** @type {HTMLSelectElement} */ (byId("color"));
  const names = model.levels.map((_, l) => [String(l + 1), `level ${l + 1}${l === 0 ? " (fine)" : l + 1 === model.levels.length ? " (coarse)" : ""}`]);
  if (model.overview.labels.length) names.push(["label", "label"]);
  names.push(["firm", "concentration"]);
  select.replaceChildren(...names.map(([value, text]) => el("option", { value }, text)));
  if (!names.some(([value]) => value === state.values.color)) state.values.color = String(model.levels.length);
  select.value = state.values.color;
  select.addEventListener("change", () => state.set({ color: select.value }));
}

async function watchMap(model, actions) {
  while (true) {
    await new Promise((done) => setTimeout(done, 2000));
    const { isFinal, note } = await model.source.mapState();
    if (!isFinal) continue;
    model.setPoints(await model.source.points());
    actions.map.note = note;
    actions.cache = null;
    if (actions.map.density) actions.map.density = await model.source.density();
    await actions.redraw();
    return;
  }
}

async function start() {
  const held = /** @type {any} */ (window).GRAPHHAM;
  const source = held ? new StaticSource(held) : new ServerSource();
  const asked = Promise.all([source.overview(), source.points()]);
  const plotly = loadPlotly(); // it starts up while the server reads the run
  const [overview, points] = await asked;
  const state = new State();
  const model = new Model(source, overview, points);
  const actions = new Actions(model, state);
  document.title = shown(overview.name, 60) + " – graphham";
  byId("name").textContent = shown(overview.name, 60);
  byId("counts").textContent = `${count(overview.numNodes)} nodes, ${overview.levels.map((g) => g.length).join(" › ")} groups`;
  fillColors(model, state);
  actions.map = new MapView(model, state, actions);
  actions.hierarchy = new HierarchyView(model, state, actions);
  actions.panel = new PanelView(model, state, actions);
  actions.table = new TableView(model, state, actions);
  new SearchView(model, state, actions);
  startTheme(model, () => { actions.cache = null; actions.redraw(); });

  const bar = /** @type {HTMLInputElement} */ (byId("bar"));
  bar.value = String(state.values.bar);
  bar.addEventListener("input", () => state.set({ bar: Number(bar.value) }));
  byId("pan").addEventListener("click", () => actions.map.setMode("pan"));
  byId("lasso").addEventListener("click", () => actions.map.setMode("lasso"));
  byId("whole").addEventListener("click", () => actions.map.whole());
  document.addEventListener("keydown", (event) => {
    const typing = /** @type {HTMLElement} */ (event.target).matches("input, select, textarea");
    if (event.key === "/" && !typing) { event.preventDefault(); byId("search").focus(); }
    if (event.key === "Escape" && !typing) actions.clear();
  });

  let turn = 0;
  state.listen(async (changed) => {
    const mine = ++turn;
    document.documentElement.dataset.busy = "yes";
    try {
      await actions.load();
    } catch (error) {
      say(error.message);
    }
    if (["group", "lasso", "attribute"].some((n) => changed.has(n))) actions.tell().catch((error) => say(error.message));
    if (mine !== turn) return; // something newer was chosen meanwhile
    bar.value = String(state.values.bar);
    /** @type {HTMLSelectElement} */ (byId("color")).value = state.values.color || String(model.levels.length);
    if (!state.values.color) state.values.color = String(model.levels.length);
    const has = (...names) => names.some((n) => changed.has(n));
    if (has("group", "node", "layer", "color", "lasso", "attribute")) actions.panel.draw();
    if (has("group", "lasso", "attribute", "sort", "node")) actions.table.draw();
    if (has("group", "tab")) await actions.hierarchy.draw();
    if (has("color")) await actions.map.draw();
    else if (has("group", "node", "lasso", "attribute", "bar")) await actions.map.refresh();
    if (mine === turn) document.documentElement.dataset.busy = "no";
  });

  // First what needs no plotly: the table, the tree, the panel and a painted map.
  actions.panel.draw();
  actions.table.draw();
  actions.hierarchy.drawTabs();
  paintFirst(model, state.values.color, actions.map.range());
  document.documentElement.dataset.shown = "yes";
  await breathe();
  const named = state.values.node || state.values.attribute;
  const [density] = await Promise.all([overview.isLarge && !held ? source.density() : null, plotly, actions.load()]);
  actions.map.density = density;
  if (named) {
    actions.panel.draw();
    actions.table.draw();
  }
  await actions.map.draw();
  unpaint();
  if (actions.hierarchy.open !== "tree") await actions.hierarchy.draw();
  if (overview.isLarge && state.values.range) await actions.map.loadWindow();
  actions.tell().catch((error) => say(error.message));
  document.documentElement.dataset.busy = "no";
  document.documentElement.dataset.ready = "yes";
  if (!overview.map.isFinal) watchMap(model, actions).catch((error) => say(error.message));
}

start().catch((error) => {
  say("The page could not start: " + error.message);
  console.error(error);
});
