// A plotly figure of groups, in which a click selects a group or clears the selection.
import { hideTinyText } from "./figure_tools.js";

/** Draws one trace; `keyOf` names the group ("2-5") of a clicked point, "" for none.
 * @param {any} root the element to draw into; plotly adds to it @param {any} trace
 * @param {{event: string, keyOf: (point: any) => string, toggle: (key: string) => void, height?: number}} options */
export async function plotGroups(root, trace, { event, keyOf, toggle, height }) {
  const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
  const layout = { autosize: true, height, margin: { l: 6, r: 6, t: 10, b: 8 }, paper_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 12, family: getComputedStyle(document.body).fontFamily } };
  await Plotly.react(root, [trace], layout, { responsive: true, displayModeBar: false });
  root.onGroupClick = (point) => toggle(keyOf(point));
  if (root.isListening) return;
  root.isListening = true;
  root.on("plotly_afterplot", () => hideTinyText(root));
  root.on(event, (click) => {
    root.onGroupClick(click.points[0]);
    return false; // the treemap must not zoom into what was clicked
  });
}
