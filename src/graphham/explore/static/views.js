// The table of views of the hierarchy. A file view_*.js adds itself here; the tabs follow the table.

/** A view: a name (its tab's address and its element's id), a title, the place of its tab, whether it
 * needs plotly, and how to draw it anew into its element whenever the group or the tab changes.
 * @typedef {{name: string, title: string, order: number, usesPlotly: boolean, draw: (root: HTMLElement, page: {model: any, state: any, actions: any}) => any}} View */

/** @type {View[]} */
export const VIEWS = [];

/** Adds a view; its tab stands where its order says. @param {View} view */
export function addView(view) {
  VIEWS.push(view);
  VIEWS.sort((a, b) => a.order - b.order);
}
