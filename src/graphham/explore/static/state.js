// The page's state, and the address that restores it.

export const DEFAULTS = { color: "", tab: "tree", group: "", node: "", bar: 0, thin: 0, names: 1, lasso: "", besidelasso: "", attribute: "", range: "", layer: 1, sort: "-between" };

/** Keeps the state, tells listeners what changed, and mirrors it in the address. */
export class State {
  constructor() {
    this.values = { ...DEFAULTS, ...State.fromAddress(location.hash) };
    this.listeners = [];
    window.addEventListener("hashchange", () => {
      const next = { ...DEFAULTS, ...State.fromAddress(location.hash) };
      this.apply(next, false);
    });
  }
  static fromAddress(hash) {
    const values = {};
    for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
      if (name in DEFAULTS) values[name] = typeof DEFAULTS[name] === "number" ? Number(text) || 0 : text;
    }
    return values;
  }
  get address() {
    const params = new URLSearchParams();
    for (const [name, value] of Object.entries(this.values)) {
      if (value !== DEFAULTS[name]) params.set(name, String(value));
    }
    return "#" + params.toString();
  }
  /** @param {(changed: Set<string>, values: any) => void} listener */
  listen(listener) {
    this.listeners.push(listener);
  }
  /** @param {Record<string, any>} changes */
  set(changes) {
    this.apply({ ...this.values, ...changes }, true);
  }
  apply(next, writes) {
    const changed = new Set(Object.keys(DEFAULTS).filter((k) => next[k] !== this.values[k]));
    if (!changed.size) return;
    this.values = next;
    if (writes) {
      // Zooming and sliding must not fill the history; a selection may be undone with Back.
      const isStep = ["group", "node", "attribute", "lasso", "besidelasso"].some((k) => changed.has(k));
      history[isStep ? "pushState" : "replaceState"](null, "", this.address);
    }
    for (const listener of this.listeners) listener(changed, this.values);
  }
}

/** Splits a group's key, "2-5", into level and number. @param {string} key */
export function groupOf(key) {
  const [level, group] = key.split("-").map(Number);
  return { level, group };
}
