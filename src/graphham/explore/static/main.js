// Starts the page: reads the run, makes the views, and lets every view follow one state.
import { byId, oneLine, el, count, showAlert } from "./dom.js";
import { ServerSource, StaticSource } from "./source.js";
import { State } from "./state.js";
import { Model } from "./model.js";
import { Actions } from "./actions.js";
import { nextFrame, loadPlotly, paintFirst, removePaint } from "./paint.js";
import { MapView } from "./map.js";
import { HierarchyView, makeTabs } from "./hierarchy.js";
import { PanelView } from "./panel.js";
import { TableView } from "./table.js";
import { SearchView } from "./search.js";
import { BesideView } from "./beside.js";

const page = document.documentElement.dataset;
const alertError = (/** @type {Error} */ error) => showAlert(error.message);

/** @param {Model} model @param {() => void} redraw */
function startTheme(model, redraw) {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const set = (/** @type {boolean} */ isDark) => {
    page.theme = isDark ? "dark" : "light";
    model.setTheme(isDark);
  };
  set(dark.matches);
  dark.addEventListener("change", () => { set(dark.matches); redraw(); });
  byId("theme").addEventListener("click", () => { set(!model.isDark); redraw(); });
}

/** @param {Model} model @param {State} state */
function fillColors(model, state) {
  const select = /** @type {HTMLSelectElement} */ (byId("color"));
  const names = model.levels.map((_, l) => [String(l + 1), `level ${l + 1}${l === 0 ? " (fine)" : l + 1 === model.levels.length ? " (coarse)" : ""}`]);
  if (model.overview.labels.length) names.push(["label", "label"]);
  if (model.hasFirm) names.push(["firm", "concentration"], ["between", "between groups"]);
  if (model.hasEvidence) names.push(["evidence", "evidence"]);
  if (!names.length) names.push(["plain", "nothing"]);
  select.replaceChildren(...names.map(([value, text]) => el("option", { value }, text)));
  if (!names.some(([value]) => value === state.values.color)) state.values.color = model.usualColor;
  select.value = state.values.color;
  select.addEventListener("change", () => state.set({ color: select.value }));
}

/** Waits for the map that the server still computes, and draws it. @param {Model} model @param {Actions} actions */
async function watchMap(model, actions) {
  while (true) {
    await new Promise((done) => setTimeout(done, 2000));
    const { isFinal, note } = await model.source.mapState();
    if (!isFinal) continue;
    model.setPoints(await model.source.points());
    actions.map.note = note;
    if (actions.map.density) actions.map.density = await model.source.density();
    await actions.redraw();
    return;
  }
}

/** Slider, buttons and keys. @param {State} state @param {Actions} actions */
function startControls(state, actions) {
  const bar = /** @type {HTMLInputElement} */ (byId("bar"));
  bar.value = String(state.values.bar);
  bar.addEventListener("input", () => state.set({ bar: Number(bar.value) }));
  const thin = /** @type {HTMLInputElement} */ (byId("thin"));
  thin.checked = Boolean(state.values.thin);
  thin.addEventListener("change", () => state.set({ thin: thin.checked ? 1 : 0 }));
  byId("names").addEventListener("click", () => state.set({ names: state.values.names ? 0 : 1 }));
  byId("barlist").addEventListener("click", () => actions.selectAttribute("between", state.values.bar));
  byId("thinlist").addEventListener("click", () => actions.selectAttribute("evidence", 0));
  byId("pan").addEventListener("click", () => actions.map.setMode("pan"));
  byId("lasso").addEventListener("click", () => actions.map.setMode("lasso"));
  byId("whole").addEventListener("click", () => actions.map.whole());
  document.addEventListener("keydown", (event) => {
    const typing = /** @type {HTMLElement} */ (event.target).matches("input, select, textarea");
    if (event.key === "/" && !typing) { event.preventDefault(); byId("search").focus(); }
    if (event.key === "Escape" && !typing) actions.clear();
  });
}

/** Lets controls and views follow the state. @param {Model} model @param {State} state @param {Actions} actions */
function followState(model, state, actions) {
  let turn = 0;
  state.listen(async (changed) => {
    const mine = ++turn;
    page.busy = "yes";
    await actions.load().catch(alertError);
    if (["group", "lasso", "besidelasso", "attribute"].some((n) => changed.has(n))) actions.postSelection().catch(alertError);
    if (mine !== turn) return; // the state has changed again meanwhile
    if (!state.values.color) state.values.color = model.usualColor;
    /** @type {HTMLInputElement} */ (byId("bar")).value = String(state.values.bar);
    byId("names").setAttribute("aria-pressed", String(Boolean(state.values.names)));
    /** @type {HTMLInputElement} */ (byId("thin")).checked = Boolean(state.values.thin);
    /** @type {HTMLSelectElement} */ (byId("color")).value = state.values.color;
    await actions.follow(changed);
    if (mine === turn) page.busy = "no";
  });
}

async function start() {
  makeTabs();
  const data = /** @type {any} */ (window).GRAPHHAM; // only a static copy has it
  const source = data ? new StaticSource(data) : new ServerSource();
  const loading = Promise.all([source.overview(), source.points()]);
  const plotly = loadPlotly(); // it starts up while the server reads the run
  const [overview, points] = await loading;
  const state = new State();
  const model = new Model(source, overview, points);
  const actions = new Actions(model, state);
  document.title = oneLine(overview.name, 60) + " – graphham";
  byId("name").textContent = oneLine(overview.name, 60);
  const groups = overview.levels.length ? `, ${model.groupsInUse.join(" › ")} groups` : "";
  byId("counts").textContent = count(overview.numNodes) + " nodes" + groups;
  byId("counts").title = groups ? "Groups in use: those that at least one node is shown in" : "";
  byId("hierarchy").hidden = !overview.levels.length;
  document.documentElement.dataset.hierarchy = overview.levels.length ? "yes" : "no";
  for (const id of ["barlabel", "bar", "barnote"]) byId(id).hidden = !overview.firm;
  byId("names").hidden = !overview.levels.length;
  byId("names").setAttribute("aria-pressed", String(Boolean(state.values.names)));
  for (const id of ["thinlabel", "thinnote"]) byId(id).hidden = !model.hasEvidence;
  fillColors(model, state);
  actions.map = new MapView(model, state, actions);
  if (overview.beside) actions.beside = new BesideView(model, state, actions, await source.beside());
  actions.hierarchy = new HierarchyView(model, state, actions);
  actions.panel = new PanelView(model, state, actions);
  actions.table = new TableView(model, state, actions);
  new SearchView(model, state, actions);
  startTheme(model, () => actions.redraw());
  startControls(state, actions);
  followState(model, state, actions);

  // First what needs no plotly: the table, the tree, the panel and a painted map.
  actions.panel.draw();
  actions.table.draw();
  actions.hierarchy.draw(false);
  if (actions.beside) actions.beside.draw();
  paintFirst(model, state.values.color, actions.map.range());
  page.shown = "yes";
  await nextFrame();
  const isNamed = state.values.node || state.values.attribute;
  [actions.map.density] = await Promise.all([overview.isLarge && !data ? source.density() : null, plotly, actions.load()]);
  if (isNamed) {
    if (actions.beside) actions.beside.draw();
    actions.panel.draw();
    actions.table.draw();
  }
  await actions.map.draw();
  removePaint();
  if (actions.hierarchy.open.usesPlotly) await actions.hierarchy.draw();
  if (overview.isLarge && state.values.range) await actions.map.loadWindow();
  actions.postSelection().catch(alertError);
  page.busy = "no";
  page.ready = "yes";
  if (!overview.map.isFinal) watchMap(model, actions).catch(alertError);
}

start().catch((error) => {
  showAlert("The page could not start: " + error.message);
  console.error(error);
});
