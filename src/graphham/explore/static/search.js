// Search by id, title, group, label or feature.
import { byId, oneLine, el, count, showAlert } from "./dom.js";

export class SearchView {
  /** @param {any} model @param {any} state @param {any} actions */
  constructor(model, state, actions) {
    this.model = model;
    this.actions = actions;
    this.input = /** @type {HTMLInputElement} */ (byId("search"));
    this.list = byId("results");
    this.at = -1;
    this.turn = 0;
    let timer = 0;
    this.input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = window.setTimeout(() => this.run(), 120);
    });
    this.input.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("click", (event) => {
      if (!byId("search").parentElement.contains(/** @type {Node} */ (event.target))) this.close();
    });
  }

  async run() {
    const turn = ++this.turn;
    const text = this.input.value;
    if (!text.trim()) return this.close();
    try {
      const results = await this.model.source.search(text);
      if (turn === this.turn) this.show(results); // a slow response must not replace a newer one
    } catch (error) {
      showAlert(error.message);
    }
  }

  show({ nodes, attributes }) {
    this.model.addInfo(nodes);
    const option = (children, run) => el("li", { role: "option", "aria-selected": "false", onclick: () => { this.close(); run(); } }, ...children);
    const query = this.input.value.trim().toLowerCase();
    const groups = this.model.levels.flatMap((of, l) => of.map((g, i) => ({ ...g, key: `${l + 1}-${i}` })))
      .filter((g) => g.size > 0 && (g.name.toLowerCase().includes(query) || g.key === query)).sort((a, b) => b.size - a.size).slice(0, 6);
    const named = groups.map((g) => option(["group ", el("b", {}, oneLine(g.name, 60)), el("small", {}, ` ${count(g.size)} nodes`)], () => this.actions.selectGroup(g.key)));
    // Whoever types a whole id means that node.
    const isId = nodes.id.length > 0 && nodes.id[0].toLowerCase() === query;
    const items = [
      ...(isId ? [] : named),
      ...nodes.row.map((row, i) => option([el("b", {}, oneLine(nodes.id[i], 60)), nodes.title[i] ? el("small", {}, " " + oneLine(nodes.title[i], 80)) : ""], () => this.actions.selectNode(row))),
      ...(isId ? named : []),
      ...attributes.map((a) => option([`${a.kind} `, el("b", {}, oneLine(a.name, 60)), el("small", {}, ` ${count(a.count)} nodes`)], () => this.actions.selectAttribute(a.kind, a.code))),
    ];
    this.list.replaceChildren(...(items.length ? items : [el("li", {}, "Nothing found")]));
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.at = -1;
  }

  key(event) {
    const items = /** @type {HTMLElement[]} */ (Array.from(this.list.querySelectorAll("[role=option]")));
    if (event.key === "Escape") this.close();
    if (event.key === "Enter" && items.length) items[Math.max(0, this.at)].click();
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !items.length) return;
    event.preventDefault();
    this.at = (this.at + step + items.length) % items.length;
    items.forEach((item, i) => item.setAttribute("aria-selected", String(i === this.at)));
    items[this.at].scrollIntoView({ block: "nearest" });
  }

  close() {
    this.turn++;
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
  }
}
