// Mechs as figures of tapered boxes and barrels, in halves of their hull: x ahead, y left, z up, each within -1..1.

const PAINT = { ARMOUR: 0, DARK: 1, TRIM: 2, EYE: 3, STEEL: 4 };
const LIMB = { BODY: 0, LEFT: 1, RIGHT: 2 };

/** A box around `at` with half sizes `half`; its top is `taper` times as wide along x and y, shifted ahead by `lean`. */
function box(at, half, paint, { taper = [1, 1], lean = 0, limb = LIMB.BODY } = {}) {
  return { at, half, paint, taper, lean, limb };
}

/** A box on each side: left as given, right mirrored. */
function both(at, half, paint, options = {}) {
  const mirrored = [at[0], -at[1], at[2]];
  const legs = options.leg ? [LIMB.LEFT, LIMB.RIGHT] : [LIMB.BODY, LIMB.BODY];
  return [box(at, half, paint, { ...options, limb: legs[0] }), box(mirrored, half, paint, { ...options, limb: legs[1] })];
}

/** A barrel along x from `x0` to `x1`. */
function barrel(x0, x1, y, z, radius, paint = PAINT.STEEL) {
  return { barrel: true, x0, x1, y, z, radius, paint, limb: LIMB.BODY };
}

const { ARMOUR, DARK, TRIM, EYE, STEEL } = PAINT;

const FIGURES = {
  scout: [
    ...both([-0.02, 0.42, -0.24], [0.2, 0.14, 0.26], DARK, { leg: true, lean: 0.12 }),
    ...both([-0.14, 0.42, -0.66], [0.16, 0.12, 0.28], ARMOUR, { leg: true, lean: 0.16, taper: [0.8, 0.8] }),
    ...both([0.04, 0.42, -0.95], [0.34, 0.18, 0.06], DARK, { leg: true, taper: [0.7, 0.8] }),
    box([0, 0, 0.0], [0.34, 0.5, 0.1], DARK),
    box([0.04, 0, 0.3], [0.62, 0.52, 0.24], ARMOUR, { taper: [0.62, 0.7], lean: -0.08 }),
    box([-0.4, 0, 0.4], [0.22, 0.4, 0.22], DARK, { taper: [0.8, 0.7] }),
    box([0.62, 0, 0.26], [0.16, 0.3, 0.1], EYE, { taper: [0.6, 0.8] }),
    box([-0.02, 0, 0.62], [0.3, 0.32, 0.1], TRIM, { taper: [0.7, 0.6] }),
    barrel(0.3, 1.1, -0.62, 0.28, 0.1),
    box([0.1, -0.62, 0.28], [0.3, 0.14, 0.14], DARK),
    box([-0.3, 0.34, 0.9], [0.05, 0.05, 0.34], STEEL),
    box([-0.3, 0.34, 1.16], [0.12, 0.36, 0.1], TRIM, { taper: [0.4, 1] }),
  ],
  light: [
    ...both([-0.08, 0.5, -0.26], [0.26, 0.16, 0.26], DARK, { leg: true, lean: 0.2 }),
    ...both([-0.2, 0.5, -0.66], [0.18, 0.15, 0.28], ARMOUR, { leg: true, lean: -0.2, taper: [1, 0.9] }),
    ...both([0.08, 0.5, -0.94], [0.4, 0.22, 0.07], DARK, { leg: true, taper: [0.75, 0.8] }),
    box([-0.05, 0, 0.0], [0.36, 0.56, 0.12], DARK),
    box([0.02, 0, 0.34], [0.8, 0.5, 0.28], ARMOUR, { taper: [0.6, 0.75], lean: -0.16 }),
    box([0.74, 0, 0.28], [0.14, 0.26, 0.1], EYE, { taper: [0.6, 0.8] }),
    ...both([0.0, 0.72, 0.36], [0.44, 0.2, 0.2], ARMOUR, { taper: [0.8, 0.7] }),
    box([-0.7, 0, 0.44], [0.24, 0.6, 0.26], DARK, { taper: [0.9, 0.8] }),
    ...both([-0.86, 0.36, 0.2], [0.16, 0.18, 0.16], STEEL, { taper: [0.7, 0.7] }),
    barrel(0.3, 1.12, -0.72, 0.34, 0.16),
    barrel(1.0, 1.2, -0.72, 0.34, 0.22, DARK),
    barrel(0.3, 1.2, 0.72, 0.36, 0.09),
    box([-0.2, 0, 0.72], [0.34, 0.3, 0.12], TRIM, { taper: [0.6, 0.7] }),
  ],
  medium: [
    ...both([0, 0.44, -0.22], [0.24, 0.22, 0.26], DARK, { leg: true }),
    ...both([0.02, 0.46, -0.66], [0.28, 0.26, 0.26], ARMOUR, { leg: true, taper: [0.8, 0.85], lean: -0.04 }),
    ...both([0.1, 0.46, -0.94], [0.42, 0.3, 0.07], DARK, { leg: true, taper: [0.8, 0.85] }),
    box([0, 0, 0.02], [0.34, 0.5, 0.1], DARK),
    box([0, 0, 0.36], [0.44, 0.58, 0.28], ARMOUR, { taper: [1.2, 1.1] }),
    box([0.44, 0, 0.44], [0.12, 0.34, 0.16], TRIM, { taper: [0.6, 0.8] }),
    box([0.08, 0, 0.76], [0.22, 0.22, 0.14], ARMOUR, { taper: [0.7, 0.8] }),
    box([0.28, 0, 0.78], [0.07, 0.18, 0.06], EYE),
    ...both([-0.02, 0.8, 0.5], [0.36, 0.24, 0.2], ARMOUR, { taper: [0.7, 0.75] }),
    ...both([0.1, 0.82, 0.16], [0.2, 0.16, 0.2], DARK),
    ...both([0.3, 0.82, -0.02], [0.42, 0.18, 0.14], STEEL, { taper: [0.9, 0.8] }),
    barrel(0.6, 1.3, -0.76, 0.0, 0.06), barrel(0.6, 1.3, -0.9, 0.0, 0.06),
    barrel(0.6, 1.2, 0.82, 0.0, 0.1), barrel(1.1, 1.22, 0.82, 0.0, 0.13, EYE),
    box([-0.48, 0, 0.4], [0.16, 0.42, 0.26], DARK, { taper: [0.8, 0.9] }),
  ],
  heavy: [
    ...both([-0.02, 0.48, -0.26], [0.28, 0.26, 0.24], DARK, { leg: true }),
    ...both([0, 0.5, -0.64], [0.36, 0.32, 0.24], ARMOUR, { leg: true, taper: [0.75, 0.8] }),
    ...both([0.08, 0.5, -0.92], [0.52, 0.38, 0.09], DARK, { leg: true, taper: [0.75, 0.8] }),
    box([0, 0, -0.02], [0.42, 0.56, 0.12], DARK),
    box([0.02, 0, 0.32], [0.58, 0.62, 0.26], ARMOUR, { taper: [1.1, 1.05], lean: 0.02 }),
    box([0, 0, 0.64], [0.5, 0.5, 0.1], ARMOUR, { taper: [0.7, 0.7] }),
    box([0.5, 0, 0.58], [0.16, 0.24, 0.1], ARMOUR, { taper: [0.8, 0.8] }),
    box([0.66, 0, 0.57], [0.05, 0.18, 0.045], EYE),
    box([0.62, 0, 0.28], [0.1, 0.36, 0.16], TRIM, { taper: [0.5, 0.8] }),
    ...both([-0.08, 0.7, 0.76], [0.46, 0.24, 0.2], ARMOUR, { taper: [0.95, 0.9] }),
    ...both([0.39, 0.7, 0.76], [0.03, 0.19, 0.15], DARK),
    ...[0.62, 0.78].flatMap((y) => [0.7, 0.82].flatMap((z) => [y, -y].map((side) => barrel(0.36, 0.45, side, z, 0.055, TRIM)))),
    ...both([0.0, 0.84, 0.36], [0.26, 0.16, 0.18], DARK),
    box([0.2, -0.86, 0.16], [0.5, 0.17, 0.17], STEEL, { taper: [0.9, 0.8] }),
    barrel(0.6, 1.5, -0.86, 0.16, 0.09), barrel(1.34, 1.52, -0.86, 0.16, 0.12, DARK),
    box([0.2, 0.86, 0.16], [0.44, 0.16, 0.16], STEEL, { taper: [0.9, 0.8] }),
    barrel(0.55, 1.12, 0.86, 0.16, 0.1), barrel(1.04, 1.15, 0.86, 0.16, 0.12, EYE),
    box([-0.62, 0, 0.36], [0.2, 0.5, 0.3], DARK, { taper: [0.8, 0.9] }),
    ...both([-0.74, 0.3, 0.62], [0.09, 0.09, 0.22], STEEL),
  ],
};

/** Corners of a tapered box, bottom then top. */
function boxCorners({ at, half, taper, lean }) {
  const ring = (z, tx, ty, shift) => [[-1, -1], [1, -1], [1, 1], [-1, 1]].map(([x, y]) =>
    [at[0] + x * half[0] * tx + shift, at[1] + y * half[1] * ty, at[2] + z * half[2]]);
  return [...ring(-1, 1, 1, 0), ...ring(1, taper[0], taper[1], lean)];
}

const BOX_QUADS = [[3, 2, 1, 0], [4, 5, 6, 7], [0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [3, 0, 4, 7]];

function* boxQuads(part) {
  const corners = boxCorners(part);
  for (const quad of BOX_QUADS) yield quad.map((i) => corners[i]);
}

/** An eight-sided barrel; `stretch` makes it round where the hull is higher than wide. */
function* barrelQuads({ x0, x1, y, z, radius }, stretch) {
  const rim = (x) => Array.from({ length: 8 }, (_, i) => {
    const a = ((i + 0.5) * Math.PI) / 4;
    return [x, y + radius * Math.cos(a), z + radius * Math.sin(a) * stretch];
  });
  const back = rim(x0), front = rim(x1);
  for (let i = 0; i < 8; i++) {
    const j = (i + 1) & 7;
    yield [back[i], front[i], front[j], back[j]].reverse();
  }
  for (const i of [0, 2, 4]) yield [front[0], front[i + 1], front[i + 2], front[(i + 3) & 7]];
}

/** Triangles of a class for a hull of given half sizes: position, normal, paint, limb. */
function buildFigure(hull, half) {
  const out = [];
  for (const part of FIGURES[hull]) {
    const quads = part.barrel ? barrelQuads(part, half[1] / half[2]) : boxQuads(part);
    for (const quad of quads) {
      const points = quad.map((p) => [p[0] * half[0], p[1] * half[1], p[2] * half[2]]);
      const normal = unit(cross(sub(points[2], points[0]), sub(points[3], points[1])));
      for (const i of [0, 1, 2, 0, 2, 3]) out.push(...points[i], ...normal, part.paint, part.limb);
    }
  }
  return new Float32Array(out);
}
