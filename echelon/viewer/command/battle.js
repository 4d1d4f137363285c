// What is known of the battle: the last two reports, between which the page draws, and what was ordered since.

const facts = JSON.parse(document.getElementById("data").textContent);
const ENEMY = facts.team === "blue" ? "red" : "blue";
const SHORTEST_MS = 30;

class Battle {
  constructor() {
    Object.assign(this, { about: null, report: null, places: new Map(), before: new Map(), headings: new Map() });
    Object.assign(this, { arrived: 0, span: 1, selected: 0, paused: false, speed: 1, winner: null, pending: new Map() });
    Object.assign(this, { mech: null, driven: null, facing: null }); // clicked last; driven, and where it faces, rad
  }

  /** Take in a report that arrived at a time, ms. */
  take(report, time) {
    const usual = (1000 * this.about.period_s) / this.speed;
    this.before = new Map([...this.places.keys()].map((name) => [name, this.place(name, time)]));
    this.span = Math.min(Math.max(this.arrived ? time - this.arrived : usual, SHORTEST_MS), 2 * usual);
    Object.assign(this, { report, arrived: time, places: new Map(), pending: new Map() });
    for (const mech of [...this.mechs, ...report.enemies]) {
      this.places.set(mech.name, mech.place);
      const [x, y] = mech.place, [oldX, oldY] = this.before.get(mech.name) ?? mech.place;
      if (Math.hypot(x - oldX, y - oldY) > 0.1) this.headings.set(mech.name, Math.atan2(y - oldY, x - oldX));
    }
  }

  get packs() {
    return this.report?.packs ?? [];
  }

  get mechs() {
    return this.packs.flatMap((pack) => pack.mechs);
  }

  get enemies() {
    return this.report?.enemies ?? [];
  }

  /** Where a mech is drawn at a time: on its way between the last two reports. */
  place(name, time) {
    const [x, y] = this.places.get(name), [oldX, oldY] = this.before.get(name) ?? [x, y];
    const share = Math.min((time - this.arrived) / this.span, 1);
    return [oldX + (x - oldX) * share, oldY + (y - oldY) * share];
  }

  /** Middle of a pack as it is drawn; null of one that is lost. */
  middle(pack, time) {
    const spots = pack.mechs.map(({ name }) => this.place(name, time));
    return spots.length ? [0, 1].map((axis) => spots.reduce((sum, spot) => sum + spot[axis], 0) / spots.length) : null;
  }

  /** The order that a pack will have: what was sent since the last report, else what it was told. */
  order(pack) {
    return this.pending.get(pack.pack) ?? pack.order;
  }

  /** Where an order points at a time; null of one without a place. */
  goal(order, time) {
    if (!order || order.kind === "free") return null;
    if (order.target && this.places.has(order.target)) return this.place(order.target, time);
    return order.place ?? null;
  }

  /** The nearest of some mechs within a reach of a point, vox. */
  nearest(mechs, [x, y], reach, time) {
    const away = ({ name }) => Math.hypot(...this.place(name, time).map((axis, at) => axis - [x, y][at]));
    const [first] = [...mechs].sort((one, other) => away(one) - away(other));
    return first && away(first) <= reach ? first : null;
  }
}
