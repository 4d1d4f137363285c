// The eye: it orbits a point on the ground, and moves softly to where it is sent.

const FIELD_OF_VIEW = 0.62;
const TOP = Math.PI / 2 - 0.002;
const LOWEST = 0.12;
const SETTLED = 1e-3;

class Camera {
  constructor(size) {
    this.size = size;
    this.aspect = 1;
    this.now = this.home();
    this.goal = { ...this.now, target: [...this.now.target] };
  }

  /** The whole arena from one of its sides. */
  home() {
    const [x, y] = this.size;
    return { target: [x / 2, y / 2, 0], azimuth: -1.27, elevation: 0.9, distance: x * 1.8 };
  }

  /** The whole arena, seen from a side or from above, as near as it fits. */
  fit(fromTop) {
    const goal = this.home();
    if (fromTop) Object.assign(goal, { azimuth: -Math.PI / 2, elevation: TOP });
    this.goal = goal;
    let near = 5, far = this.size[0] * 8;
    for (let i = 0; i < 24; i++) {
      goal.distance = (near + far) / 2;
      this.centre(goal);
      if (this.fits(goal)) far = goal.distance;
      else near = goal.distance;
    }
    goal.distance = far;
    this.fitted = far;
  }

  corners() {
    const [x, y] = this.size, high = Math.min(this.size[2] * 0.35, 7);
    return [0, x].flatMap((a) => [0, y].flatMap((b) => [-2, high].map((c) => [a, b, c])));
  }

  /** Shift the target so that the arena lies in the middle of the picture. */
  centre(goal) {
    goal.target = [this.size[0] / 2, this.size[1] / 2, 0];
    const seen = this.corners().map((corner) => transform(this.matrix(goal), corner));
    const middle = (axis) => (Math.max(...seen.map((p) => p[axis] / p[3])) + Math.min(...seen.map((p) => p[axis] / p[3]))) / 2;
    const reach = goal.distance * Math.tan(FIELD_OF_VIEW / 2);
    const ahead = (-middle(1) * reach) / Math.sin(goal.elevation), right = middle(0) * reach * this.aspect;
    const c = Math.cos(goal.azimuth), s = Math.sin(goal.azimuth);
    goal.target[0] += c * ahead - s * right;
    goal.target[1] += s * ahead + c * right;
  }

  fits(goal) {
    return this.corners().map((corner) => transform(this.matrix(goal), corner))
      .every(([x, y, , w]) => w > 0 && Math.abs(x / w) < 0.97 && Math.abs(y / w) < 0.96);
  }

  eyeOf({ target, azimuth, elevation, distance }) {
    const flat = Math.cos(elevation) * distance;
    return add(target, [Math.cos(azimuth) * flat, Math.sin(azimuth) * flat, Math.sin(elevation) * distance]);
  }

  get eye() {
    return this.eyeOf(this.now);
  }

  matrix(state = this.now) {
    const far = state.distance + 4 * Math.max(...this.size);
    const lens = perspective(FIELD_OF_VIEW, this.aspect, Math.max(state.distance / 60, 0.2), far);
    return multiply(lens, lookAt(this.eyeOf(state), state.target, [0, 0, 1]));
  }

  /** Unit vectors to the right, up, and towards the camera. */
  axes() {
    const m = lookAt(this.eye, this.now.target, [0, 0, 1]);
    return { right: [m[0], m[4], m[8]], up: [m[1], m[5], m[9]], back: [m[2], m[6], m[10]] };
  }

  get isTop() {
    return this.goal.elevation > TOP - 0.05;
  }

  orbit(dx, dy) {
    this.goal.azimuth -= dx;
    this.goal.elevation = clamp(this.goal.elevation + dy, LOWEST, TOP);
  }

  zoom(factor) {
    this.goal.distance = clamp(this.goal.distance * factor, 4, Math.max(...this.size) * 5);
  }

  /** Move over the ground by shares of the picture's height. */
  pan(right, ahead) {
    const reach = this.goal.distance * Math.tan(FIELD_OF_VIEW / 2) * 2;
    const a = this.goal.azimuth, { target } = this.goal;
    target[0] = clamp(target[0] + reach * (-Math.sin(a) * right - Math.cos(a) * ahead), 0, this.size[0]);
    target[1] = clamp(target[1] + reach * (Math.cos(a) * right - Math.sin(a) * ahead), 0, this.size[1]);
  }

  /** Come nearer to the goal; true while on the way. */
  approach(seconds) {
    const k = 1 - Math.exp(-seconds * 9);
    const { now, goal } = this;
    now.target = mix3(now.target, goal.target, k);
    now.azimuth = mixAngle(now.azimuth, goal.azimuth, k);
    now.elevation = mix(now.elevation, goal.elevation, k);
    now.distance = mix(now.distance, goal.distance, k);
    const off = norm(sub(now.target, goal.target)) / goal.distance + Math.abs(now.elevation - goal.elevation)
      + Math.abs(Math.sin((now.azimuth - goal.azimuth) / 2)) + Math.abs(now.distance / goal.distance - 1);
    if (off > SETTLED) return true;
    this.jump();
    return false;
  }

  /** Be at the goal at once. */
  jump() {
    this.now = { ...this.goal, target: [...this.goal.target] };
  }
}
