// Moving and zooming the map by hand. Drawing tens of thousands of points takes a while, so the drawn
// picture itself follows the hand, as on a street map, and is drawn anew when the hand rests.

const REST = 160;
const CLICK = 4;

/** Where the picture lies at the moment: scaled by zoom, then moved by x and y pixels.
 * @typedef {{zoom: number, x: number, y: number}} Place */

/** @type {Readonly<Place>} */
export const STILL = Object.freeze({ zoom: 1, x: 0, y: 0 });

/** Zooms a picture's place around a point that stays where it is.
 * @param {Place} at @param {number} factor @param {number} px @param {number} py */
export function zoomed(at, factor, px, py) {
  return { zoom: at.zoom * factor, x: px - (px - at.x) * factor, y: py - (py - at.y) * factor };
}

/** The part of an axis that shows after the picture moved.
 * @param {number[]} range @param {number} length pixels of the axis @param {number} zoom @param {number} shift */
export function shownRange(range, length, zoom, shift) {
  const scale = (range[1] - range[0]) / length;
  return [range[0] + (-shift / zoom) * scale, range[0] + ((length - shift) / zoom) * scale];
}

export class Gestures {
  /** @param {any} root the element that plotly draws into
   * @param {() => boolean} isOn whether the hand moves the map at the moment
   * @param {(x: number[], y: number[]) => Promise<void>} settle draws another part of the map
   * @param {() => void} click called when the hand pressed and did not move */
  constructor(root, isOn, settle, click) {
    this.root = root;
    this.isOn = isOn;
    this.settle = settle;
    /** @type {Place} */
    this.at = STILL;
    this.timer = 0;
    /** @type {Map<number, {x: number, y: number}>} */
    this.hands = new Map();
    this.isMoving = false;
    this.wasMoved = false;
    root.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    root.addEventListener("pointerdown", (event) => this.down(event));
    root.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) root.addEventListener(end, (event) => this.up(event));
    // Plotly would take every press for the beginning of something of its own.
    for (const press of ["mousedown", "touchstart"]) root.addEventListener(press, (event) => isOn() && event.stopPropagation(), true);
    root.addEventListener("click", () => isOn() && !this.wasMoved && click());
  }

  place(event) {
    const box = this.root.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  wheel(event) {
    if (!this.root.data) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 20 : 1;
    const { x, y } = this.place(event);
    this.show(zoomed(this.at, Math.exp(-Math.max(-200, Math.min(200, event.deltaY * lines)) / 300), x, y));
    this.settleSoon();
  }

  down(event) {
    if (!this.root.data || !this.isOn() || event.button) return;
    this.hands.set(event.pointerId, this.place(event));
    this.isMoving = this.hands.size > 1;
    this.wasMoved = false;
    clearTimeout(this.timer);
  }

  move(event) {
    const before = this.hands.get(event.pointerId);
    if (!before) return;
    const now = this.place(event);
    const [dx, dy] = [now.x - before.x, now.y - before.y];
    if (!this.isMoving && Math.hypot(dx, dy) < CLICK) return; // may still become a click
    if (!this.isMoving) this.root.setPointerCapture(event.pointerId);
    this.isMoving = true;
    this.wasMoved = true;
    let next = { ...this.at, x: this.at.x + dx, y: this.at.y + dy };
    if (this.hands.size > 1) {
      // Two fingers: the other one holds the map, this one stretches it.
      const other = /** @type {{x: number, y: number}} */ (Array.from(this.hands).find(([id]) => id !== event.pointerId)?.[1]);
      const factor = Math.hypot(now.x - other.x, now.y - other.y) / Math.max(1, Math.hypot(before.x - other.x, before.y - other.y));
      next = zoomed(this.at, factor, other.x, other.y);
    }
    this.hands.set(event.pointerId, now);
    this.show(next);
  }

  up(event) {
    if (!this.hands.delete(event.pointerId)) return;
    if (this.hands.size) return;
    this.isMoving = false;
    if (this.at !== STILL) this.settleSoon(0);
  }

  show(at) {
    this.at = at;
    for (const part of this.root.querySelectorAll(".gl-container, .cartesianlayer")) {
      part.style.transformOrigin = "0 0";
      part.style.transform = at === STILL ? "" : `translate(${at.x}px, ${at.y}px) scale(${at.zoom})`;
    }
  }

  settleSoon(wait = REST) {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(async () => {
      const { at } = this;
      const { xaxis, yaxis } = this.root._fullLayout;
      const x = shownRange(xaxis.range, xaxis._length, at.zoom, at.x - (1 - at.zoom) * xaxis._offset);
      const y = shownRange([yaxis.range[1], yaxis.range[0]], yaxis._length, at.zoom, at.y - (1 - at.zoom) * yaxis._offset);
      await this.settle(x, [y[1], y[0]]);
      // The hand may have moved on while the map was drawn.
      this.show(this.at === at ? STILL : { zoom: this.at.zoom / at.zoom, x: this.at.x - (at.x * this.at.zoom) / at.zoom, y: this.at.y - (at.y * this.at.zoom) / at.zoom });
    }, wait);
  }
}
