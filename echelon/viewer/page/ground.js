// The voxels of a battle at any of its moments, forwards and backwards, and which chunks have changed since.

const CHUNK = 16;

class Ground {
  constructor(battle) {
    const { data, shape } = battle.arrays.ground;
    [this.sizeZ, this.sizeY, this.sizeX] = shape;
    this.cells = data.slice();
    this.names = battle.common.materials;
    this.chunksX = Math.ceil(this.sizeX / CHUNK);
    this.chunksY = Math.ceil(this.sizeY / CHUNK);
    this.dirty = new Set(Array.from({ length: this.chunksX * this.chunksY }, (_, i) => i));
    this.changes = this.listChanges(battle.voxels);
    this.applied = 0;
    this.code = Object.fromEntries(this.names.map((name, i) => [name, i]));
  }

  /** Every change with what was there before it. */
  listChanges(voxels) {
    const cells = this.cells.slice();
    return voxels.map(({ decision, x, y, z, material }) => {
      const cell = this.cellOf(x, y, z), before = cells[cell];
      cells[cell] = material;
      return { moment: decision + 1, x, y, cell, before, material };
    });
  }

  cellOf(x, y, z) {
    return (y * this.sizeX + x) * this.sizeZ + z;
  }

  /** The material of a voxel; outside the map it is air. */
  at(x, y, z) {
    const inside = x >= 0 && y >= 0 && z >= 0 && x < this.sizeX && y < this.sizeY && z < this.sizeZ;
    return inside ? this.cells[(y * this.sizeX + x) * this.sizeZ + z] : 0;
  }

  /** Bring the voxels to a moment. */
  seek(moment) {
    while (this.applied < this.changes.length && this.changes[this.applied].moment <= moment) {
      const change = this.changes[this.applied++];
      this.put(change, change.material);
    }
    while (this.applied > 0 && this.changes[this.applied - 1].moment > moment) {
      const change = this.changes[--this.applied];
      this.put(change, change.before);
    }
  }

  put({ x, y, cell }, material) {
    this.cells[cell] = material;
    for (const nearX of [x - 1, x, x + 1]) for (const nearY of [y - 1, y, y + 1]) this.touch(nearX, nearY);
  }

  /** A chunk is built anew when a voxel in or beside it changes. */
  touch(x, y) {
    if (x < 0 || y < 0 || x >= this.sizeX || y >= this.sizeY) return;
    this.dirty.add(Math.floor(y / CHUNK) * this.chunksX + Math.floor(x / CHUNK));
  }

  /** Cells of burning debris that lie lowest, where flames rise. */
  fires() {
    const burning = this.code.debris_field, found = [];
    for (let y = 0; y < this.sizeY; y++) {
      for (let x = 0; x < this.sizeX; x++) {
        const first = (y * this.sizeX + x) * this.sizeZ;
        for (let z = 0; z < this.sizeZ; z++) {
          if (this.cells[first + z] === burning && (z === 0 || this.cells[first + z - 1] !== burning)) found.push([x, y, z]);
        }
      }
    }
    return found;
  }
}
