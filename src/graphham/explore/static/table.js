// The table below: the nodes that are selected, in a group, or all of them.
import { byId, oneLine, el, count, showAlert } from "./dom.js";

const SHOWN_ROWS = 200;

export class TableView {
  /** @param {any} model @param {any} state @param {any} actions */
  constructor(model, state, actions) {
    this.model = model;
    this.state = state;
    this.actions = actions;
    this.box = byId("tablebox");
    byId("csv").addEventListener("click", () => this.save("csv"));
    byId("parquet").addEventListener("click", () => this.save("parquet"));
    byId("parquet").hidden = !model.source.formats.includes("parquet");
    byId("clear").addEventListener("click", () => actions.clear());
  }

  /** Positions of the nodes that the table is about. */
  indices() {
    const selection = this.actions.selection();
    return selection ? selection.indices : Array.from({ length: this.model.size }, (_, i) => i);
  }

  draw() {
    const { model, state } = this;
    const selection = this.actions.selection();
    const all = this.indices();
    const title = selection ? selection.title : "All nodes";
    const total = selection && selection.size ? selection.size : selection && this.actions.numSelected != null ? this.actions.numSelected : selection ? all.length : model.overview.numNodes;
    byId("tabletitle").textContent = `${title}: ${count(total)} nodes` + (model.isWhole ? "" : `, ${count(all.length)} of them drawn and listed`);
    byId("clear").hidden = !selection && !this.actions.node();
    const names = ["id", ...model.levels.map((_, l) => "group" + (l + 1)), ...(model.overview.labels.length ? ["label"] : []), ...(model.hasFirm ? ["between"] : []), ...(model.hasEvidence ? ["evidence"] : [])];
    const titles = { id: "Node", label: "Label", between: "Between groups", evidence: "Evidence" };
    const numbers = ["between", "evidence"].filter((n) => names.includes(n));
    const asked = state.values.sort;
    const sort = names.includes(asked.replace(/^-/, "")) ? asked : names[names.length - 1];
    const by = sort.replace(/^-/, "");
    const column = model.points[by];
    const order = Array.from(all);
    // Only what is shown needs full order, but a typed sort of everything is quick enough.
    const sign = sort.startsWith("-") ? -1 : 1;
    if (by === "id") {
      const texts = new Map(order.map((i) => [i, column.get(i)]));
      order.sort((a, b) => sign * (texts.get(a) < texts.get(b) ? -1 : texts.get(a) > texts.get(b) ? 1 : 0));
    } else order.sort((a, b) => sign * (column[a] - column[b]) || a - b);
    const head = el("tr", {}, ...names.map((n) => el("th", { className: numbers.includes(n) ? "n" : "", "aria-sort": by === n ? (sign > 0 ? "ascending" : "descending") : "none" }, el("button", { type: "button", onclick: () => state.set({ sort: sort === n ? "-" + n : n }) }, (titles[n] || "Level " + n.slice(5)) + (by === n ? (sign > 0 ? " ↑" : " ↓") : "")))));
    const lines = order.slice(0, SHOWN_ROWS).map((i) => {
      const info = model.info(model.points.row[i]);
      return el("tr", { "data-id": oneLine(info.id, 200) },
        el("td", {}, el("button", { className: "link", type: "button", title: info.title ? oneLine(info.title, 120) : null, onclick: () => this.actions.selectNode(info.row) }, oneLine(info.id, 60))),
        ...info.groups.map((g, l) => el("td", {}, el("span", { className: "named" }, el("span", { className: "swatch", style: { background: model.group(l + 1, g).color } }), el("span", {}, oneLine(model.group(l + 1, g).name, 40))))),
        model.overview.labels.length ? el("td", {}, info.label >= 0 ? oneLine(model.overview.labels[info.label].name, 40) : "–") : null,
        ...numbers.map((n) => el("td", { className: "n" }, info[n].toFixed(3))));
    });
    if (order.length > SHOWN_ROWS) lines.push(el("tr", {}, el("td", { colspan: names.length, className: "note" }, `The first ${SHOWN_ROWS} of ${count(order.length)}; an export holds all of them.`)));
    this.box.querySelector("thead").replaceChildren(head);
    this.box.querySelector("tbody").replaceChildren(...lines);
  }

  async save(format) {
    try {
      const rows = this.indices().map((i) => this.model.points.row[i]);
      // A selection is exported whole, whether all of it is drawn or not.
      const blob = await this.model.source.exportRows(rows, format, this.actions.selectionRequest);
      const link = el("a", { href: URL.createObjectURL(blob), download: "selection." + format });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    } catch (error) {
      showAlert(error.message);
    }
  }
}
