// The section on the left: a tab for every view of the hierarchy, and the view that is open.
import { byId, el } from "./dom.js";
import { VIEWS } from "./views.js";

/** Makes the tabs and the elements that the views draw into, before any data is there. */
export function makeTabs() {
  for (const { name, title, usesPlotly } of VIEWS) {
    if (byId(name)) throw new Error(`the page has an element ${name} already; give the view another name`);
    document.querySelector("[role=tablist]").append(el("button", { role: "tab", "data-tab": name }, title));
    byId("hierarchy").append(el("div", { id: name, className: usesPlotly ? "view plot" : "view", hidden: name !== VIEWS[0].name }));
  }
}

export class HierarchyView {
  /** @param {any} model @param {any} state @param {any} actions */
  constructor(model, state, actions) {
    this.page = { model, state, actions };
    /** @type {HTMLElement[]} */
    this.tabs = Array.from(document.querySelectorAll("[data-tab]"));
    for (const tab of this.tabs) {
      tab.addEventListener("click", () => state.set({ tab: tab.dataset.tab }));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const next = this.tabs[(this.tabs.indexOf(tab) + step + this.tabs.length) % this.tabs.length];
        next.focus();
        next.click();
      });
    }
  }

  /** The view that the address names, or the first one. */
  get open() {
    return VIEWS.find((view) => view.name === this.page.state.values.tab) || VIEWS[0];
  }

  /** Draws the open view; one that needs plotly is left out while plotly is not there. */
  async draw(hasPlotly = true) {
    if (!this.page.model.levels.length) return; // the method finds no groups
    const { open } = this;
    for (const tab of this.tabs) {
      const isOpen = tab.dataset.tab === open.name;
      tab.setAttribute("aria-selected", String(isOpen));
      tab.tabIndex = isOpen ? 0 : -1;
      byId(tab.dataset.tab).hidden = !isOpen;
    }
    if (hasPlotly || !open.usesPlotly) await open.draw(byId(open.name), this.page);
  }
}
