// Vectors of three and matrices of four by four, column by column, as WebGL takes them.

const add = (a, b) => [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
const sub = (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
const scale = (a, k) => [a[0] * k, a[1] * k, a[2] * k];
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const norm = (a) => Math.hypot(a[0], a[1], a[2]);
const unit = (a) => scale(a, 1 / (norm(a) || 1));
const mix = (a, b, k) => a + (b - a) * k;
const mix3 = (a, b, k) => [mix(a[0], b[0], k), mix(a[1], b[1], k), mix(a[2], b[2], k)];
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
/** A number with so many digits behind the point; none that rounds to zero has a sign. */
const fixed = (x, digits) => x.toFixed(digits).replace(/^-(?=[0.]*$)/, "");

/** The angle between a and b, `k` of the way by the short way. */
function mixAngle(a, b, k) {
  const way = ((b - a + 3 * Math.PI) % (2 * Math.PI)) - Math.PI;
  return a + way * k;
}

/** A number in 0..1 that follows from whole numbers, the same each time. */
function chance(a, b = 0, c = 0) {
  let h = (a * 374761393 + b * 668265263 + c * 2147483629) | 0;
  h = Math.imul(h ^ (h >>> 13), 1274126177);
  h = Math.imul(h ^ (h >>> 16), 2246822519);
  return ((h ^ (h >>> 15)) >>> 0) / 4294967296;
}

/** The product a b. */
function multiply(a, b) {
  const out = new Float32Array(16);
  for (let c = 0; c < 4; c++) {
    for (let r = 0; r < 4; r++) {
      let sum = 0;
      for (let k = 0; k < 4; k++) sum += a[k * 4 + r] * b[c * 4 + k];
      out[c * 4 + r] = sum;
    }
  }
  return out;
}

/** A camera at `eye` that looks at `target`. */
function lookAt(eye, target, up) {
  const z = unit(sub(eye, target));
  const x = unit(cross(up, z));
  const y = cross(z, x);
  return new Float32Array([
    x[0], y[0], z[0], 0, x[1], y[1], z[1], 0, x[2], y[2], z[2], 0, -dot(x, eye), -dot(y, eye), -dot(z, eye), 1,
  ]);
}

/** A perspective with a vertical field of view in radians. */
function perspective(fov, aspect, near, far) {
  const f = 1 / Math.tan(fov / 2);
  const depth = 1 / (near - far);
  return new Float32Array([f / aspect, 0, 0, 0, 0, f, 0, 0, 0, 0, (far + near) * depth, -1, 0, 0, 2 * far * near * depth, 0]);
}

/** A projection without perspective. */
function orthographic(left, right, bottom, top, near, far) {
  return new Float32Array([
    2 / (right - left), 0, 0, 0, 0, 2 / (top - bottom), 0, 0, 0, 0, -2 / (far - near), 0,
    -(right + left) / (right - left), -(top + bottom) / (top - bottom), -(far + near) / (far - near), 1,
  ]);
}

/** Where a point comes to lie: `[x, y, z, w]` before the division by w. */
function transform(m, p) {
  const out = [0, 0, 0, 0];
  for (let r = 0; r < 4; r++) out[r] = m[r] * p[0] + m[4 + r] * p[1] + m[8 + r] * p[2] + m[12 + r];
  return out;
}

/** Standing at `at`, turned by `yaw`, then fallen over its side by `roll`. */
function placed(at, yaw, roll) {
  const c = Math.cos(yaw), s = Math.sin(yaw), cr = Math.cos(roll), sr = Math.sin(roll);
  return new Float32Array([
    c, s, 0, 0,
    -s * cr, c * cr, sr, 0,
    s * sr, -c * sr, cr, 0,
    at[0], at[1], at[2], 1,
  ]);
}
