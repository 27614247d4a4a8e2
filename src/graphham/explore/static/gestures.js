// Moving and zooming the map. Drawing tens of thousands of points takes a while, so the drawn picture
// itself follows the pointer, as on a street map, and is drawn anew when the pointer rests.

const REST_MILLISECONDS = 160;
const CLICK_PIXELS = 4;

/** Where the picture lies at the moment: scaled by zoom, then moved by x and y pixels.
 * @typedef {{zoom: number, x: number, y: number}} Transform */

/** @type {Readonly<Transform>} */
export const IDENTITY = Object.freeze({ zoom: 1, x: 0, y: 0 });

/** Zooms a picture around a point that stays where it is.
 * @param {Transform} transform @param {number} factor @param {number} px @param {number} py */
export function zoomAround(transform, factor, px, py) {
  return { zoom: transform.zoom * factor, x: px - (px - transform.x) * factor, y: py - (py - transform.y) * factor };
}

/** The part of an axis that shows after the picture moved.
 * @param {number[]} range @param {number} length pixels of the axis @param {number} zoom @param {number} shift */
export function shownRange(range, length, zoom, shift) {
  const scale = (range[1] - range[0]) / length;
  return [range[0] + (-shift / zoom) * scale, range[0] + ((length - shift) / zoom) * scale];
}

export class Gestures {
  /** @param {any} root the element that plotly draws into
   * @param {() => boolean} isOn whether dragging moves the map at the moment
   * @param {(x: number[], y: number[]) => Promise<void>} settle draws another part of the map
   * @param {() => void} click called after a press without a move */
  constructor(root, isOn, settle, click) {
    this.root = root;
    this.isOn = isOn;
    this.settle = settle;
    /** @type {Transform} */
    this.transform = IDENTITY;
    this.timer = 0;
    /** @type {Map<number, {x: number, y: number}>} */
    this.pointers = new Map();
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

  position(event) {
    const box = this.root.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  wheel(event) {
    if (!this.root.data) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 20 : 1;
    const { x, y } = this.position(event);
    this.show(zoomAround(this.transform, Math.exp(-Math.max(-200, Math.min(200, event.deltaY * lines)) / 300), x, y));
    this.settleSoon();
  }

  down(event) {
    if (!this.root.data || !this.isOn() || event.button) return;
    this.pointers.set(event.pointerId, this.position(event));
    this.isMoving = this.pointers.size > 1;
    this.wasMoved = false;
    clearTimeout(this.timer);
  }

  move(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const now = this.position(event);
    const [dx, dy] = [now.x - before.x, now.y - before.y];
    if (!this.isMoving && Math.hypot(dx, dy) < CLICK_PIXELS) return; // may still become a click
    if (!this.isMoving) this.root.setPointerCapture(event.pointerId);
    this.isMoving = true;
    this.wasMoved = true;
    let next = { ...this.transform, x: this.transform.x + dx, y: this.transform.y + dy };
    if (this.pointers.size > 1) {
      // Two fingers: the other one holds the map, this one stretches it.
      const other = /** @type {{x: number, y: number}} */ (Array.from(this.pointers).find(([id]) => id !== event.pointerId)?.[1]);
      const factor = Math.hypot(now.x - other.x, now.y - other.y) / Math.max(1, Math.hypot(before.x - other.x, before.y - other.y));
      next = zoomAround(this.transform, factor, other.x, other.y);
    }
    this.pointers.set(event.pointerId, now);
    this.show(next);
  }

  up(event) {
    if (!this.pointers.delete(event.pointerId)) return;
    if (this.pointers.size) return;
    this.isMoving = false;
    if (this.transform !== IDENTITY) this.settleSoon(0);
  }

  show(transform) {
    this.transform = transform;
    for (const part of this.root.querySelectorAll(".gl-container, .cartesianlayer")) {
      part.style.transformOrigin = "0 0";
      part.style.transform = transform === IDENTITY ? "" : `translate(${transform.x}px, ${transform.y}px) scale(${transform.zoom})`;
    }
  }

  settleSoon(wait = REST_MILLISECONDS) {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(async () => {
      const at = this.transform;
      const { xaxis, yaxis } = this.root._fullLayout;
      const x = shownRange(xaxis.range, xaxis._length, at.zoom, at.x - (1 - at.zoom) * xaxis._offset);
      const y = shownRange([yaxis.range[1], yaxis.range[0]], yaxis._length, at.zoom, at.y - (1 - at.zoom) * yaxis._offset);
      await this.settle(x, [y[1], y[0]]);
      // The pointer may have moved on while the map was drawn.
      this.show(this.transform === at ? IDENTITY : { zoom: this.transform.zoom / at.zoom, x: this.transform.x - (at.x * this.transform.zoom) / at.zoom, y: this.transform.y - (at.y * this.transform.zoom) / at.zoom });
    }, wait);
  }
}
