// Voxels as triangles: hidden faces left out, corners darkened where neighbours crowd them.

/** Faces: outward normal, and two edges that span it (counter-clockwise from outside). */
const FACES = [
  { n: [1, 0, 0], u: [0, 1, 0], v: [0, 0, 1] }, { n: [-1, 0, 0], u: [0, 0, 1], v: [0, 1, 0] },
  { n: [0, 1, 0], u: [0, 0, 1], v: [1, 0, 0] }, { n: [0, -1, 0], u: [1, 0, 0], v: [0, 0, 1] },
  { n: [0, 0, 1], u: [1, 0, 0], v: [0, 1, 0] }, { n: [0, 0, -1], u: [0, 1, 0], v: [1, 0, 0] },
];
const UP = 4;
const CORNERS = [[0, 0], [1, 0], [1, 1], [0, 1]];
const VERTEX_BYTES = 8;
/** Lowering of a vertex, in sixteenths of a voxel. */
const WATER_DROP = 4, LAVA_DROP = 3, RUBBLE_DROP = 9, PLINTH_DROP = 40;
const PLINTH = 10;

/** Collects quads of eight-byte vertices: x, y, z, drop, face and shade, material, tint, free. */
class QuadList {
  constructor() {
    this.bytes = new Uint8Array(1 << 14);
    this.length = 0;
  }

  /** Four corners `[x, y, z, drop]` with their shades 0..3; the quad is split along its brighter diagonal. */
  push(corners, face, shades, material, tint) {
    if (this.length + 4 * VERTEX_BYTES > this.bytes.length) {
      const wider = new Uint8Array(this.bytes.length * 2);
      wider.set(this.bytes);
      this.bytes = wider;
    }
    const turn = shades[0] + shades[2] < shades[1] + shades[3] ? 1 : 0;
    for (let i = 0; i < 4; i++) {
      const k = (i + turn) & 3, corner = corners[k];
      this.bytes.set([corner[0], corner[1], corner[2], corner[3], face | (shades[k] << 3), material, tint, 0], this.length);
      this.length += VERTEX_BYTES;
    }
  }

  get quads() {
    return this.length / VERTEX_BYTES / 4;
  }

  get view() {
    return this.bytes.subarray(0, this.length);
  }
}

class Mesher {
  constructor(ground) {
    this.ground = ground;
    const code = ground.code;
    this.code = code;
    this.covers = ground.names.map((name) => name === "solid" || name === "reinforced");
    this.crowds = ground.names.map((name, i) => this.covers[i] || name === "foliage" || name === "solid_debris");
  }

  /** The faces of one chunk: `{opaque, glass}`. */
  build(chunk) {
    const { ground } = this;
    const x0 = (chunk % ground.chunksX) * CHUNK, y0 = Math.floor(chunk / ground.chunksX) * CHUNK;
    this.opaque = new QuadList();
    this.glass = new QuadList();
    for (let y = y0; y < Math.min(y0 + CHUNK, ground.sizeY); y++) {
      for (let x = x0; x < Math.min(x0 + CHUNK, ground.sizeX); x++) {
        this.layFloor(x, y);
        this.layBorder(x, y);
        for (let z = 0; z < ground.sizeZ; z++) {
          const material = ground.cells[(y * ground.sizeX + x) * ground.sizeZ + z];
          if (material !== 0) this.layCell(x, y, z, material);
        }
      }
    }
    return { opaque: this.opaque, glass: this.glass };
  }

  layCell(x, y, z, material) {
    const { code } = this;
    if (z === 0 && (material === code.dirt || material === code.water || material === code.lava)) return;
    if (material === code.debris_field && z > 0 && this.ground.at(x, y, z - 1) === code.debris_field) return;
    const drop = material === code.debris_field ? RUBBLE_DROP : 0;
    const list = material === code.glass ? this.glass : this.opaque;
    const tint = Math.floor(chance(x, y, z) * 255);
    for (let face = 0; face < 6; face++) {
      const n = FACES[face].n;
      const next = this.ground.at(x + n[0], y + n[1], z + n[2]);
      const hidden = (this.covers[next] && !drop) || next === material || (face === 5 && z === 0);
      if (!hidden) this.layFace(list, x, y, z, face, material, tint, drop);
    }
  }

  layFace(list, x, y, z, face, material, tint, drop) {
    const { n, u, v } = FACES[face];
    const origin = [x + Math.max(n[0], 0), y + Math.max(n[1], 0), z + Math.max(n[2], 0)];
    const corners = CORNERS.map(([a, b]) => {
      const at = [0, 1, 2].map((i) => origin[i] + a * u[i] + b * v[i]);
      return [...at, at[2] > z ? drop : 0];
    });
    const air = [x + n[0], y + n[1], z + n[2]];
    list.push(corners, face, this.shadesOf(air, u, v), material, tint);
  }

  /** Shade of each corner of a face, 3 for open, 0 for cramped, from the cells around the cell in front of it. */
  shadesOf(air, u, v) {
    return CORNERS.map(([a, b]) => {
      const du = a ? 1 : -1, dv = b ? 1 : -1;
      const side = this.crowdedAt(air, u, du, v, 0), other = this.crowdedAt(air, u, 0, v, dv);
      return side && other ? 0 : 3 - side - other - this.crowdedAt(air, u, du, v, dv);
    });
  }

  crowdedAt(air, u, du, v, dv) {
    const cell = [0, 1, 2].map((i) => air[i] + du * u[i] + dv * v[i]);
    return this.crowds[this.ground.at(cell[0], cell[1], cell[2])] ? 1 : 0;
  }

  /** What one walks on at z = 0. */
  floorOf(x, y) {
    const { code } = this, material = this.ground.at(x, y, 0);
    return [code.dirt, code.water, code.lava, code.air].includes(material) ? material : code.dirt;
  }

  dropOf(x, y) {
    const inside = x >= 0 && y >= 0 && x < this.ground.sizeX && y < this.ground.sizeY;
    const floor = inside ? this.floorOf(x, y) : this.code.dirt;
    return floor === this.code.water ? WATER_DROP : floor === this.code.lava ? LAVA_DROP : 0;
  }

  /** The floor of a column, and the banks around it where it lies low. */
  layFloor(x, y) {
    if (this.covers[this.ground.at(x, y, 0)]) return;
    const material = this.floorOf(x, y), drop = this.dropOf(x, y), { u, v } = FACES[UP];
    const tint = Math.floor(chance(x, y, 77) * 255);
    const corners = CORNERS.map(([a, b]) => [x + a, y + b, 0, drop]);
    this.opaque.push(corners, UP, this.shadesOf([x, y, 0], u, v), material, tint);
    if (drop) for (const face of [0, 1, 2, 3]) this.layBank(x, y, face, drop, tint);
  }

  /** The bank that a low floor shows towards itself, below a neighbour. */
  layBank(x, y, face, drop, tint) {
    const { n } = FACES[face];
    if (this.dropOf(x + n[0], y + n[1]) >= drop) return;
    const far = [x + Math.max(n[0], 0), y + Math.max(n[1], 0)];
    const along = n[0] ? [0, 1] : [1, 0];
    const ends = [far, [far[0] + along[0], far[1] + along[1]]];
    const back = n[0] ? (n[0] > 0 ? 1 : 0) : n[1] > 0 ? 3 : 2;
    if (back === 1 || back === 2) ends.reverse();
    const corners = [[...ends[0], 0, drop], [...ends[1], 0, drop], [...ends[1], 0, 0], [...ends[0], 0, 0]];
    this.opaque.push(corners, back, [1, 1, 3, 3], this.code.dirt, tint);
  }

  /** The cut side of the ground along the border of the map. */
  layBorder(x, y) {
    const { sizeX, sizeY } = this.ground;
    const sides = [[0, x === sizeX - 1], [1, x === 0], [2, y === sizeY - 1], [3, y === 0]];
    for (const [face, atBorder] of sides) {
      if (!atBorder) continue;
      const { n } = FACES[face];
      const far = [x + Math.max(n[0], 0), y + Math.max(n[1], 0)];
      const to = n[0] ? [far[0], far[1] + 1] : [far[0] + 1, far[1]];
      const ends = face === 0 || face === 3 ? [far, to] : [to, far];
      const drop = this.dropOf(x, y);
      const corners = [
        [...ends[0], 0, PLINTH_DROP], [...ends[1], 0, PLINTH_DROP], [...ends[1], 0, drop], [...ends[0], 0, drop],
      ];
      this.opaque.push(corners, face, [3, 3, 3, 3], PLINTH, 128);
    }
  }
}
