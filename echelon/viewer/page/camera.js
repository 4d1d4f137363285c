// The eye: it orbits a point on the ground, and moves softly to where it is sent.

const FIELD_OF_VIEW = 0.62;
/** Seen from above, from far away: walls hardly lean. */
const FIELD_FROM_TOP = 0.14;
const TOP = Math.PI / 2 - 0.002;
const LOWEST = 0.12;
const SETTLED = 1e-3;
const EDGE_SHARE = 0.96;

/**
 * A view: `target` on the ground, `azimuth` and `elevation` of the eye, `reach`, half the height of the picture at the
 * target in voxels, and the vertical field of view `fov`.
 */
class Camera {
  constructor(size) {
    this.size = size;
    this.aspect = 1;
    this.ceiling = EDGE_SHARE;
    this.goal = this.home();
    this.jump();
  }

  /** The whole arena from one of its sides. */
  home() {
    const [x, y] = this.size;
    return { target: [x / 2, y / 2, 0], azimuth: -1.27, elevation: 0.9, reach: x / 2, fov: FIELD_OF_VIEW };
  }

  /** The whole arena, seen from a side or from above, as near as it fits below `this.ceiling`. */
  fit(fromTop) {
    const goal = this.home();
    if (fromTop) Object.assign(goal, { azimuth: -Math.PI / 2, elevation: TOP, fov: FIELD_FROM_TOP });
    this.goal = goal;
    let near = 2, far = this.size[0] * 3;
    for (let i = 0; i < 24; i++) {
      goal.reach = (near + far) / 2;
      this.centre(goal);
      if (this.fits(goal)) far = goal.reach;
      else near = goal.reach;
    }
    goal.reach = far;
    this.centre(goal);
    this.fitted = far;
    this.resting = { ...goal, target: [...goal.target] };
  }

  corners() {
    const [x, y] = this.size, high = Math.min(this.size[2] * 0.35, 7);
    return [0, x].flatMap((a) => [0, y].flatMap((b) => [-2, high].map((c) => [a, b, c])));
  }

  /** Where the corners of the arena lie in the picture, -1..1. */
  seen(goal) {
    const matrix = this.matrix(goal);
    return this.corners().map((corner) => transform(matrix, corner)).map(([x, y, , w]) => [x / w, y / w, w]);
  }

  /** Shift the target so that the arena lies in the middle of the picture, below its ceiling. */
  centre(goal) {
    goal.target = [this.size[0] / 2, this.size[1] / 2, 0];
    const seen = this.seen(goal);
    const middle = (axis) => (Math.max(...seen.map((p) => p[axis])) + Math.min(...seen.map((p) => p[axis]))) / 2;
    const up = middle(1) - (this.ceiling - EDGE_SHARE) / 2;
    const ahead = (-up * goal.reach) / Math.sin(goal.elevation), right = middle(0) * goal.reach * this.aspect;
    const c = Math.cos(goal.azimuth), s = Math.sin(goal.azimuth);
    goal.target[0] += c * ahead - s * right;
    goal.target[1] += s * ahead + c * right;
  }

  fits(goal) {
    return this.seen(goal).every(([x, y, w]) => w > 0 && Math.abs(x) < EDGE_SHARE && y > -EDGE_SHARE && y < this.ceiling);
  }

  distanceOf({ reach, fov }) {
    return reach / Math.tan(fov / 2);
  }

  eyeOf(state) {
    const { target, azimuth, elevation } = state, distance = this.distanceOf(state), flat = Math.cos(elevation) * distance;
    return add(target, [Math.cos(azimuth) * flat, Math.sin(azimuth) * flat, Math.sin(elevation) * distance]);
  }

  get eye() {
    return this.eyeOf(this.now);
  }

  matrix(state = this.now) {
    const distance = this.distanceOf(state), widest = Math.max(...this.size);
    const lens = perspective(state.fov, this.aspect, Math.max(distance - 2 * widest, distance / 60, 0.2), distance + 3 * widest);
    return multiply(lens, lookAt(this.eyeOf(state), state.target, [0, 0, 1]));
  }

  /** Unit vectors to the right, up, and towards the camera. */
  axes() {
    const m = lookAt(this.eye, this.now.target, [0, 0, 1]);
    return { right: [m[0], m[4], m[8]], up: [m[1], m[5], m[9]], back: [m[2], m[6], m[10]] };
  }

  /** The direction from the eye through a point of the picture, -1..1 each way. */
  ray(x, y) {
    const { right, up, back } = this.axes(), tan = Math.tan(this.now.fov / 2);
    return unit(sub(add(scale(right, x * tan * this.aspect), scale(up, y * tan)), back));
  }

  /** Whether the view differs from the default view of the whole arena. */
  get isMoved() {
    const home = this.resting, { goal } = this;
    return !home || ["azimuth", "elevation", "reach"].some((name) => Math.abs(goal[name] - home[name]) > 1e-3)
      || norm(sub(goal.target, home.target)) > 1e-2;
  }

  /** Its goal in five numbers, as an address keeps it. */
  get told() {
    const { target, azimuth, elevation, reach } = this.goal;
    return [target[0], target[1], azimuth, elevation, reach].map((v) => Number(v.toFixed(3)));
  }

  /** Look at some points, near enough that they fill the picture and no nearer than `least`. */
  frame(points, least) {
    const middle = [0, 1, 2].map((axis) => points.reduce((sum, p) => sum + p[axis], 0) / points.length);
    this.goal.target = [middle[0], middle[1], 0];
    const far = Math.max(...points.map((p) => norm(sub(p, middle))));
    this.goal.reach = clamp((far * 1.5) / Math.min(this.aspect, 1), least, this.fitted ?? Infinity);
  }

  get isTop() {
    return this.goal.elevation > TOP - 0.05;
  }

  orbit(dx, dy) {
    this.goal.azimuth -= dx;
    this.goal.elevation = clamp(this.goal.elevation + dy, LOWEST, TOP);
    this.goal.fov = this.isTop ? this.goal.fov : FIELD_OF_VIEW;
  }

  zoom(factor) {
    this.goal.reach = clamp(this.goal.reach * factor, 1.5, Math.max(...this.size) * 1.5);
  }

  /** Move over the ground by shares of the picture's height. */
  pan(right, ahead) {
    const way = this.goal.reach * 2;
    const a = this.goal.azimuth, { target } = this.goal;
    target[0] = clamp(target[0] + way * (-Math.sin(a) * right - Math.cos(a) * ahead), 0, this.size[0]);
    target[1] = clamp(target[1] + way * (Math.cos(a) * right - Math.sin(a) * ahead), 0, this.size[1]);
  }

  /** Come nearer to the goal; true while on the way. */
  approach(seconds) {
    const k = 1 - Math.exp(-seconds * 9);
    const { now, goal } = this;
    now.target = mix3(now.target, goal.target, k);
    now.azimuth = mixAngle(now.azimuth, goal.azimuth, k);
    for (const name of ["elevation", "reach", "fov"]) now[name] = mix(now[name], goal[name], k);
    const off = norm(sub(now.target, goal.target)) / goal.reach + Math.abs(now.elevation - goal.elevation)
      + Math.abs(Math.sin((now.azimuth - goal.azimuth) / 2)) + Math.abs(now.reach / goal.reach - 1) + Math.abs(now.fov - goal.fov);
    if (off > SETTLED) return true;
    this.jump();
    return false;
  }

  /** Be at the goal at once. */
  jump() {
    this.now = { ...this.goal, target: [...this.goal.target] };
  }
}
