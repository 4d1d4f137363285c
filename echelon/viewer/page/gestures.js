// Mouse, pen and fingers on the scene: orbit, pan, zoom, choose.

const CLICK_PX = 5;

class Gestures {
  /** `on`: `orbit(dx, dy)`, `pan(dx, dy)`, `zoom(factor)`, `click(x, y)`, `visit(x, y)`, `hover(x, y)`; distances in shares of the height. */
  constructor(element, on) {
    Object.assign(this, { element, on, fingers: new Map(), moved: 0 });
    const listen = (name, act, options) => element.addEventListener(name, act, options);
    listen("pointerdown", (event) => this.down(event));
    listen("pointermove", (event) => this.move(event));
    listen("pointerup", (event) => this.up(event));
    listen("pointercancel", (event) => this.fingers.delete(event.pointerId));
    listen("pointerleave", () => this.on.hover(-1, -1));
    listen("contextmenu", (event) => event.preventDefault());
    listen("dblclick", (event) => this.on.visit(...this.at(event)));
    listen("wheel", (event) => this.wheel(event), { passive: false });
  }

  at(event) {
    const place = this.element.getBoundingClientRect();
    return [event.clientX - place.left, event.clientY - place.top];
  }

  down(event) {
    this.element.setPointerCapture(event.pointerId);
    this.element.focus({ preventScroll: true });
    if (this.fingers.size === 0) this.moved = 0;
    this.fingers.set(event.pointerId, this.at(event));
  }

  move(event) {
    const before = this.fingers.get(event.pointerId), now = this.at(event);
    if (!before) return this.on.hover(...now);
    const high = this.element.clientHeight, dx = (now[0] - before[0]) / high, dy = (now[1] - before[1]) / high;
    this.moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
    if (this.fingers.size === 2) this.pinch(event.pointerId, before, now);
    this.fingers.set(event.pointerId, now);
    if (this.moved < CLICK_PX) return;
    const pans = this.fingers.size === 2 || event.shiftKey || (event.buttons & 6) !== 0;
    if (pans) this.on.pan(dx / this.fingers.size, dy / this.fingers.size);
    else this.on.orbit(dx, dy);
  }

  pinch(id, before, now) {
    const other = [...this.fingers].find(([finger]) => finger !== id)[1];
    const apart = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]) || 1;
    this.on.zoom(apart(before) / apart(now));
  }

  up(event) {
    if (this.fingers.size === 1 && this.moved < CLICK_PX && event.button === 0) this.on.click(...this.at(event));
    this.fingers.delete(event.pointerId);
  }

  wheel(event) {
    event.preventDefault();
    this.on.zoom(Math.exp(clamp(event.deltaY, -240, 240) * 0.0014));
  }
}
