// One battle as it can be asked about: who was where at any time, and how they fared.

const UNIT = { pos: 64, yaw: 8192, points: 128, score: 1024, control: 255, reward: 65536 };
const NO_VALUE = -(2 ** 31);
const FACT = {
  ALIVE: 1, FALLEN: 2, SHUT_DOWN: 4, LEGGED: 8, SUPPRESSED: 16, VENTING: 32, ECM: 64, ECCM: 128, IN_ZONE: 256,
  UNDER_FIRE: 512,
};
const SHOWN = { HOSTILE: 1, INTEL: 2, DETAIL: 4, PAINTED: 8, SIGHT: 16, RADAR: 32, PAINT: 64, BLOOM: 128 };
const CONDITION = { SHUT_DOWN: 0, RESTARTED: 1, FELL: 2, STOOD_UP: 3, LEGGED: 4 };
const SWITCH = { VENT: 1, ECM: 2, ECCM: 4, HOSTILE_ONLY: 8, SORT_BIGGEST: 16, SORT_MOST_DAMAGED: 32 };
const MET = { NOTHING: 0, MECH: 1, VOXEL: 2, FLOOR: 3, AMS: 4, BATTLE_END: 5 };
const COLUMNS = {
  beams: ["tick", "shooter", "target", "weapon", "x0", "y0", "z0", "x1", "y1", "z1"],
  flights: ["launch", "end", "shooter", "weapon", "lock", "met", "victim", "first", "points", "by"],
  harms: ["tick", "shooter", "target", "damage", "weapon"],
  deaths: ["tick", "victim", "killer", "weapon"],
  conditions: ["tick", "mech", "condition"],
  clouds: ["tick", "end", "owner", "x", "y", "z"],
  voxels: ["decision", "x", "y", "z", "material"],
};
const TEAMS = ["blue", "red"];

/** Rows of an event table as objects. */
function rowsOf(table, columns) {
  const [count] = table.shape;
  return Array.from({ length: count }, (_, row) =>
    Object.fromEntries(columns.map((name, c) => [name, table.data[c * count + row]])));
}

class Battle {
  /** `file`: what the battles of its file share, the streams that mechs observe, and materials that hide; `kept`: what this one is. */
  constructor({ about: common, observed: described, opaque }, kept) {
    Object.assign(this, { common, opaque, about: kept.about, decisions: kept.decisions, arrays: kept.arrays });
    this.zones = kept.about.zones.map(([x, y, radius]) => ({ center: [x, y], radius }));
    this.moments = kept.decisions + 1;
    this.decisionS = common.dt_s * common.decision_repeat;
    this.lengthS = kept.decisions * this.decisionS;
    this.size = common.size;
    this.mechs = common.mechs.map((mech, n) => this.introduce(mech, n));
    this.packTeam = [];
    for (const mech of this.mechs) this.packTeam[mech.pack] = mech.side;
    for (const [name, columns] of Object.entries(COLUMNS)) this[name] = rowsOf(kept.arrays[name], columns);
    this.egoColumns = {};
    let first = 0;
    for (const [name, width, low, high] of common.ego) {
      this.egoColumns[name] = { first, width, low, high };
      first += width;
    }
    this.observations = new Observations(this, described);
    this.walked = this.measureSteps();
  }

  /** What never changes about a mech, with its names. */
  introduce(mech, n) {
    const side = TEAMS.indexOf(mech.team);
    const place = n - this.common.teams[mech.team][0] + 1;
    return {
      ...mech, n, side, half: mech.size.map((x) => x / 2),
      name: `${mech.team} ${mech.hull} ${place}`, tag: `${mech.hull[0].toUpperCase()}${place}`,
    };
  }

  /** Way each mech has gone by each moment, vox: its legs swing by it. */
  measureSteps() {
    return this.mechs.map((_, n) => {
      const gone = new Float32Array(this.moments);
      for (let m = 1; m < this.moments; m++) {
        const a = this.posAt(n, m - 1), b = this.posAt(n, m);
        gone[m] = gone[m - 1] + Math.hypot(b[0] - a[0], b[1] - a[1]);
      }
      return gone;
    });
  }

  /** One number of an array: entry `m` of row `i`. */
  at(name, i, m) {
    return this.arrays[name].data[i * this.arrays[name].shape[0] + m];
  }

  /** The last moment at or before a time. */
  momentAt(t) {
    return clamp(Math.floor(t / this.decisionS + 1e-6), 0, this.decisions);
  }

  /** `[m, k]`: the moment before a time and the share of the way to the next. */
  between(t) {
    const m = Math.min(this.momentAt(t), Math.max(this.decisions - 1, 0));
    return this.decisions ? [m, clamp(t / this.decisionS - m, 0, 1)] : [0, 0];
  }

  /** When a tick ends, s. */
  tickEnd(tick) {
    return (tick + 1) * this.common.dt_s;
  }

  posAt(n, m) {
    return [0, 1, 2].map((axis) => this.at("pos", n * 3 + axis, m) / UNIT.pos);
  }

  yawAt(n, m) {
    return this.at("yaw", n, m) / UNIT.yaw;
  }

  has(n, m, fact) {
    return (this.at("facts", n, m) & fact) !== 0;
  }

  /** Where and how a mech stands at a time. */
  pose(n, t) {
    const [m, k] = this.between(t);
    const next = Math.min(m + 1, this.decisions);
    const falls = (at) => (this.has(n, at, FACT.FALLEN) ? 1 : 0);
    return {
      pos: mix3(this.posAt(n, m), this.posAt(n, next), k),
      yaw: mixAngle(this.yawAt(n, m), this.yawAt(n, next), k),
      walked: mix(this.walked[n][m], this.walked[n][next], k),
      fallen: mix(falls(m), falls(next), k),
      rises: (this.at("pos", n * 3 + 2, next) - this.at("pos", n * 3 + 2, m)) / UNIT.pos / this.decisionS,
    };
  }

  /** Whether a mech lives at a time; its last tick counts. */
  isAlive(n, t) {
    const death = this.deathOf(n);
    return death === undefined ? this.has(n, this.momentAt(t), FACT.ALIVE) : t < this.tickEnd(death.tick);
  }

  deathOf(n) {
    this.fate ??= new Map(this.deaths.map((death) => [death.victim, death]));
    return this.fate.get(n);
  }

  /** Points over their greatest: hp, heat and stability, at a moment. */
  condition(n, m) {
    const mech = this.mechs[n];
    return {
      hp: this.at("hp", n, m) / UNIT.points / mech.hp,
      legs: this.at("leg_hp", n, m) / UNIT.points / mech.leg_hp,
      heat: this.at("heat", n, m) / UNIT.points / mech.heat_cap,
      stability: this.at("stability", n, m) / UNIT.points / this.common.stability_cap,
      facts: this.at("facts", n, m),
      paint: this.at("paint", n, m),
      focus: this.at("focus", n, m),
    };
  }

  /** Contacts a cockpit shows, by slot: `{slot, n, facts}`. */
  contactsOf(n, m) {
    const slots = this.arrays.contacts.shape[2];
    const shown = [];
    for (let slot = 0; slot < slots; slot++) {
      const other = this.at("contacts", n * slots + slot, m);
      if (other >= 0) shown.push({ slot, n: other, facts: this.at("contact_facts", n * slots + slot, m) });
    }
    return shown;
  }

  /** Mechs to which a mech has a clear line. */
  linesOf(n, m) {
    const wide = this.arrays.lines.shape[2];
    return this.mechs.map((_, j) => j).filter((j) => (this.at("lines", n * wide + (j >> 3), m) >> (j & 7)) & 1);
  }

  /** Values of an ego feature, in the unit of the layout. */
  ego(n, m, name) {
    const { first, width, low, high } = this.egoColumns[name];
    const all = this.arrays.ego.shape[2];
    return Array.from({ length: width }, (_, i) => low + ((high - low) * this.at("ego", n * all + first + i, m)) / 255);
  }

  score(side, m) {
    return this.at("score", side, m) / UNIT.score;
  }

  control(side, m) {
    return this.at("control", side, m) / UNIT.control;
  }

  /** Mean reward of a side's mechs in the decision before a moment. */
  reward(side, m) {
    const kept = this.at("rewards", side, m);
    return kept === NO_VALUE ? 0 : kept / UNIT.reward;
  }

  /** What a side's policy expects at a moment, in its critic's units; NaN where none is known. */
  value(side, m) {
    const kept = this.arrays.values ? this.at("values", side, m) : NO_VALUE;
    return kept === NO_VALUE ? NaN : kept / UNIT.reward;
  }

  /** All mechs that a living mech observes at a moment: itself, its contacts and its living squad; none for a dead mech. */
  knownTo(n, m) {
    if (!this.has(n, m, FACT.ALIVE)) return new Set();
    const squad = this.mechs[n].squad.filter((other) => this.has(other, m, FACT.ALIVE));
    return new Set([n, ...squad, ...this.contactsOf(n, m).map((contact) => contact.n)]);
  }

  /** A row of the waypoints, vox. */
  waypoint(row) {
    return [0, 1, 2].map((axis) => this.at("waypoints", axis, row) / UNIT.pos);
  }

  /** Where a flight is at a time within it. */
  flightAt(flight, t) {
    const launch = this.tickEnd(flight.launch), end = this.tickEnd(flight.end);
    const way = clamp((t - launch) / Math.max(end - launch, 1e-6), 0, 1) * (flight.points - 1);
    const row = Math.min(Math.floor(way), Math.max(flight.points - 2, 0));
    const next = Math.min(row + 1, flight.points - 1);
    return mix3(this.waypoint(flight.first + row), this.waypoint(flight.first + next), way - row);
  }

  weaponName(w) {
    return this.common.weapons[w];
  }

  /** What the catalog tells of a weapon: range, arc, effect, look and colour. */
  weapon(w) {
    return this.common.weapon_specs[this.weaponName(w)];
  }
}
