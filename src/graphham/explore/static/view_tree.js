// The hierarchy as an outline.
import { oneLine, el, count, percent } from "./dom.js";
import { addView } from "./views.js";

addView({ name: "tree", title: "Tree", order: 1, usesPlotly: false, draw: drawTree });

/** @param {HTMLElement} root @param {{model: any, state: any, actions: any}} page */
function drawTree(root, { model, state, actions }) {
  const selected = state.values.group;
  const top = model.levels.length;
  const branch = (level, group) => {
    const g = model.group(level, group);
    const key = `${level}-${group}`;
    const button = el("button", { role: "treeitem", type: "button", "data-group": key, "aria-selected": String(key === selected), "aria-level": top - level + 1, title: `level ${level}, ${percent(g.share, 1)} of all nodes`, onclick: () => actions.toggleGroup(key) },
      el("span", { className: "swatch", style: { background: g.color } }), el("span", { className: "label" }, oneLine(g.name, 60)), el("span", { className: "n" }, count(g.size)));
    const below = model.children(level, group).sort((a, b) => b.size - a.size);
    return el("li", { role: "none" }, button, below.length ? el("ul", { role: "group" }, ...below.map((c) => branch(c.level, c.group))) : null);
  };
  const order = model.levels[top - 1].map((g, i) => [g.size, i]).sort((a, b) => b[0] - a[0]);
  const list = el("ul", { className: "tree", role: "tree", "aria-label": "Groups" }, ...order.map(([, i]) => branch(top, i)));
  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const items = Array.from(list.querySelectorAll("button"));
    const next = items[items.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement)) + step];
    if (next) next.focus();
  });
  const before = root.scrollTop;
  root.replaceChildren(list);
  root.scrollTop = before;
  const item = list.querySelector("[aria-selected=true]");
  if (item) item.scrollIntoView({ block: "nearest" });
}
