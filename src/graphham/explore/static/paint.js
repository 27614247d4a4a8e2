// The first picture of the map, painted before plotly is there: plotly takes a second to start, and
// a person who waits for the map should see it meanwhile.
import { byId } from "./dom.js";
import { mixColors } from "./figure_tools.js";

/** Loads plotly, which the page needs for everything that zooms. @returns {Promise<void>} */
export function loadPlotly() {
  return new Promise((done, fail) => {
    const script = document.createElement("script");
    script.src = document.documentElement.dataset.plotly || "";
    script.onload = () => done();
    script.onerror = () => fail(new Error("plotly.js is missing beside this page"));
    document.head.append(script);
  });
}

/** Lets the browser show what it has; a page in the background shows nothing and must not wait. */
export function nextFrame() {
  return new Promise((done) => {
    requestAnimationFrame(() => setTimeout(done, 0));
    setTimeout(done, 150);
  });
}

/** Paints the points where plotly will draw them.
 * @param {import("./model.js").Model} model
 * @param {string} color
 * @param {number[] | null} range
 */
export function paintFirst(model, color, range) {
  const map = byId("map");
  const { clientWidth: width, clientHeight: height } = map;
  const { x, y } = model.points;
  if (!width || !height || !x.length) return;
  const canvas = document.createElement("canvas");
  const scale = window.devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.className = "first";
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.scale(scale, scale);
  let [x0, x1, y0, y1] = range || [Infinity, -Infinity, Infinity, -Infinity];
  for (let i = 0; i < x.length && !range; i++) {
    x0 = Math.min(x0, x[i]); x1 = Math.max(x1, x[i]); y0 = Math.min(y0, y[i]); y1 = Math.max(y1, y[i]);
  }
  const zoom = Math.min(width / (x1 - x0 || 1), height / (y1 - y0 || 1)) * (range ? 1 : 0.94);
  const classes = color === "label" ? model.overview.labels : model.levels[Number(color) - 1];
  const codes = color === "label" ? model.points.label : model.points["group" + color];
  const { colors } = model.overview;
  const values = model.points[color];
  const shown = codes ? null : model.scale(color);
  // A straight line between the ends of the map's scale is enough for a second.
  const ramp = Array.from({ length: 65 }, (_, i) => mixColors(shown ? shown.stops[0][1] : colors.plain, shown ? shown.stops[shown.stops.length - 1][1] : colors.plain, i / 64));
  const size = x.length < 4000 ? 5 : 3;
  pen.globalAlpha = 0.85;
  for (let i = 0; i < x.length; i++) {
    const share = shown ? Math.max(0, Math.min(1, (values[i] - shown.min) / (shown.max - shown.min || 1))) : 0;
    pen.fillStyle = codes ? (codes[i] < 0 ? colors.unknown : classes[codes[i]].color) : ramp[Math.round(share * (ramp.length - 1))];
    pen.fillRect(width / 2 + (x[i] - (x0 + x1) / 2) * zoom - size / 2, height / 2 - (y[i] - (y0 + y1) / 2) * zoom - size / 2, size, size);
  }
  map.append(canvas);
}

/** Takes the first picture away once the real map is drawn. */
export function removePaint() {
  for (const canvas of document.querySelectorAll("canvas.first")) canvas.remove();
}
