// A node among its neighbours, drawn as a small network.
import { oneLine } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 320;
const HEIGHT = 260;

/** Spreads a few nodes over the plane; the same network is always drawn the same way. */
export function layoutEgo(num, edges) {
  const x = new Float64Array(num);
  const y = new Float64Array(num);
  for (let i = 1; i < num; i++) {
    const turn = i * 2.399963; // the golden angle never puts two nodes in one direction
    const away = 0.25 + 0.75 * Math.sqrt(i / num);
    x[i] = away * Math.cos(turn);
    y[i] = away * Math.sin(turn);
  }
  const ideal = 0.9 / Math.sqrt(num);
  for (let round = 0; round < 160; round++) {
    const fx = new Float64Array(num);
    const fy = new Float64Array(num);
    for (let i = 0; i < num; i++) {
      for (let j = i + 1; j < num; j++) {
        const dx = x[i] - x[j];
        const dy = y[i] - y[j];
        const d2 = dx * dx + dy * dy + 1e-4;
        const push = (ideal * ideal) / d2;
        fx[i] += dx * push; fy[i] += dy * push; fx[j] -= dx * push; fy[j] -= dy * push;
      }
    }
    for (const [i, j] of edges) {
      const dx = x[i] - x[j];
      const dy = y[i] - y[j];
      const pull = Math.sqrt(dx * dx + dy * dy) / ideal * 0.35;
      fx[i] -= dx * pull; fy[i] -= dy * pull; fx[j] += dx * pull; fy[j] += dy * pull;
    }
    const heat = 0.08 * (1 - round / 160) + 0.004;
    for (let i = 1; i < num; i++) { // the node itself stays in the middle
      const size = Math.hypot(fx[i], fy[i]) || 1;
      x[i] += (fx[i] / size) * Math.min(size, heat);
      y[i] += (fy[i] / size) * Math.min(size, heat);
    }
  }
  let most = 1e-9;
  for (let i = 0; i < num; i++) most = Math.max(most, Math.abs(x[i]) / 1.1, Math.abs(y[i]));
  return { x: Array.from(x, (v) => WIDTH / 2 + (v / most) * (WIDTH / 2 - 16) * 0.95), y: Array.from(y, (v) => HEIGHT / 2 + (v / most) * (HEIGHT / 2 - 18)) };
}

/** @param {any} node @param {any} model @param {(row: number) => void} select */
export function drawEgo(node, model, select) {
  const { rows, edges } = node.ego;
  const make = (tag, attributes) => {
    const element = document.createElementNS(SVG, tag);
    for (const [k, v] of Object.entries(attributes)) element.setAttribute(k, String(v));
    return element;
  };
  const svg = make("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "ego", role: "img", "aria-label": `The node and ${rows.length - 1} of its neighbours` });
  const place = layoutEgo(rows.length, edges);
  for (const [i, j] of edges) svg.append(make("line", { x1: place.x[i], y1: place.y[i], x2: place.x[j], y2: place.y[j] }));
  const weights = node.layers.length ? new Map(node.layers[0].rows.map((r, i) => [r, node.layers[0].weight[i]])) : new Map();
  const most = Math.max(1e-9, ...rows.slice(1).map((r) => weights.get(r) || 0));
  rows.forEach((row, i) => {
    const info = model.info(row);
    if (!info) return;
    const radius = i === 0 ? 9 : 4 + 4 * Math.sqrt((weights.get(row) || 0) / most);
    const dot = make("circle", { cx: place.x[i], cy: place.y[i], r: radius, class: i === 0 ? "self" : "", tabindex: 0, role: "button", "aria-label": oneLine(info.id, 60) });
    dot.style.fill = model.swatch(info);
    const own = model.group(1, info.groups[0]);
    const title = make("title", {});
    title.textContent = oneLine(info.id, 60) + (info.title ? " – " + oneLine(info.title, 80) : "") + (own ? " · " + oneLine(own.name, 50) : "");
    dot.append(title);
    if (i) {
      dot.addEventListener("click", () => select(row));
      dot.addEventListener("keydown", (event) => event.key === "Enter" && select(row));
    }
    svg.append(dot);
    if (i === 0 || rows.length <= 14) {
      const x = place.x[i];
      const anchor = x < 48 ? "start" : x > WIDTH - 48 ? "end" : "middle"; // names stay inside
      const text = make("text", { x: Math.max(4, Math.min(WIDTH - 4, anchor === "start" ? x - radius : anchor === "end" ? x + radius : x)), y: place.y[i] - radius - 3, "text-anchor": anchor });
      text.textContent = oneLine(info.id, 16);
      svg.append(text);
    }
  });
  return svg;
}
