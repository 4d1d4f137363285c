// How much of the map each team saw: what no wall hides from the middle of a hull, within sight range. Clouds are not counted.

const LOOK_S = 1;
/** Cells seen at a look or before it, and those never seen. */
const NEVER = 32767;

/** What both teams saw, a look a second. */
class Sight {
  constructor(battle, opaque) {
    const ground = new Ground(battle), every = Math.max(Math.round(LOOK_S / battle.decisionS), 1);
    Object.assign(this, { battle, every, sizeX: ground.sizeX, sizeY: ground.sizeY, looks: Math.floor(battle.decisions / every) + 1 });
    this.hides = ground.names.map((name) => opaque.includes(name));
    const cells = this.sizeX * this.sizeY;
    /** For each side: the look at which a cell was first seen; and for each look the cells seen then. */
    this.first = TEAMS.map(() => new Int16Array(cells).fill(NEVER));
    this.now = TEAMS.map(() => []);
    for (let look = 0; look < this.looks; look++) {
      ground.seek(look * every);
      TEAMS.forEach((_, side) => this.now[side].push(this.lookAround(ground, side, look * every)));
      TEAMS.forEach((_, side) => this.now[side][look].forEach((seen, cell) => { if (seen && this.first[side][cell] > look) this.first[side][cell] = look; }));
    }
  }

  lookAround(ground, side, m) {
    const seen = new Uint8Array(this.sizeX * this.sizeY), { battle } = this;
    const reach = Math.min(battle.common.sight_range_vox, Math.hypot(this.sizeX, this.sizeY)), rays = Math.ceil(2 * Math.PI * reach);
    for (const mech of battle.mechs) {
      if (mech.side !== side || !battle.has(mech.n, m, FACT.ALIVE)) continue;
      const [x, y, z] = battle.posAt(mech.n, m), level = clamp(Math.floor(z), 0, ground.sizeZ - 1);
      for (let ray = 0; ray < rays; ray++) this.march(seen, ground, x, y, level, (ray / rays) * 2 * Math.PI, reach);
    }
    return seen;
  }

  /** Mark the cells of a ray until something hides what lies behind. */
  march(seen, ground, x, y, level, turn, reach) {
    const c = Math.cos(turn) / 2, s = Math.sin(turn) / 2;
    for (let k = 0; k <= reach * 2; k++) {
      const u = Math.floor(x + c * k), v = Math.floor(y + s * k);
      if (u < 0 || v < 0 || u >= this.sizeX || v >= this.sizeY) return;
      seen[v * this.sizeX + u] = 1;
      if (k > 0 && this.hides[ground.cells[(v * this.sizeX + u) * ground.sizeZ + level]]) return;
    }
  }

  lookOf(m) {
    return Math.min(Math.floor(m / this.every), this.looks - 1);
  }

  /** Share of the map that a side saw at each moment, and had seen until then: two curves. */
  shares(side) {
    const cells = this.sizeX * this.sizeY, count = (list, is) => list.reduce((sum, x) => sum + (is(x) ? 1 : 0), 0) / cells;
    const now = this.now[side].map((seen) => count(seen, Boolean)), ever = this.now[side].map((_, look) => count(this.first[side], (first) => first <= look));
    return [now, ever].map((list) => Float32Array.from({ length: this.battle.moments }, (_, m) => list[this.lookOf(m)]));
  }

  /** What a side knows of a cell at a moment: 0 never seen, 1 seen before, 2 seen now. */
  known(side, m, cell) {
    const look = this.lookOf(m);
    return this.now[side][look][cell] ? 2 : this.first[side][cell] <= look ? 1 : 0;
  }
}

/** What both teams of a battle saw, worked out when it is first asked for. */
function sightOf(battle) {
  return (battle.sight ??= new Sight(battle, battle.opaque));
}

function studySeen(battle, on) {
  const sight = sightOf(battle), shares = TEAMS.map((_, side) => sight.shares(side)), tell = (v) => `${(100 * v).toFixed(0)} %`;
  const charts = [["Share of the map in sight", 0], ["Share of the map seen so far", 1]].map(([title, i]) => new Chart(battle, { title, curves: teamCurves(shares.map((own) => own[i])), tell }, on.seek));
  on.charts(charts);
  const rows = TEAMS.map((team, side) => [make("b", team, team), tell(shares[side][0].reduce((a, b) => a + b, 0) / battle.moments), tell(shares[side][1].at(-1))]);
  const buttons = TEAMS.map((team, side) => {
    const button = make("button", "", `Fog of ${team}`);
    button.type = "button";
    button.addEventListener("click", () => on.fog(side));
    return button;
  });
  const note = make("p", "summary", `Ground within ${battle.common.sight_range_vox.toFixed(0)} vox without a wall between it and the middle of a hull, sampled once a second; clouds are ignored.`);
  return [...charts.map(({ element }) => element), plainTable([["team"], ["in sight, mean"], ["seen in all"]], rows), note, make("p", "row", ...buttons)];
}
