// Orders by keys and pointer: what a press means for the selected pack.

const KEYS = { h: "hold", g: "regroup", f: "free", d: "defend", s: "screen" };
const FIRE_KEYS = { r: "return", t: "hold" };
const WORDS = { hold: "hold", regroup: "regroup", free: "free", defend: "defend here", screen: "screen here", r: "return fire only", t: "hold fire" };
const AT_PLACE = ["defend", "screen"];

class Orders {
  /** `send` sends a message to the battle, `tell` says a line. */
  constructor(field, battle, send, tell) {
    Object.assign(this, { field, battle, send, tell, fire: new Map() });
    const { canvas } = field;
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  }

  /** Point of the map under the pointer, kept within it. */
  point(event) {
    const spot = this.field.point(event.clientX, event.clientY);
    this.cursor = spot.map((axis, at) => Math.round(10 * Math.min(Math.max(axis, 0), facts.map[at])) / 10);
    return this.cursor;
  }

  /** Which of some mechs a point of the map means, if any. */
  within(mechs, spot, time) {
    return this.battle.nearest(mechs, spot, Math.max(1.5, FREE_PX / this.field.scale), time);
  }

  press(event) {
    const spot = this.point(event), { battle, field } = this, time = performance.now();
    field.canvas.focus();
    if (event.button === 0 && !battle.driven) {
      const mech = this.within(battle.mechs, spot, time);
      if (!mech) return;
      battle.mech = mech.name;
      this.select(battle.packs.find((pack) => pack.mechs.includes(mech)).pack);
    } else if (event.button === 2) {
      const enemy = this.within(battle.enemies, spot, time);
      this.give(enemy ? { kind: "attack", target: enemy.name } : { kind: "move", place: spot });
    }
  }

  select(pack) {
    if (pack < this.battle.packs.length) this.battle.selected = pack;
  }

  /** Give the selected pack an order, with the fire discipline that was chosen for it. */
  give(order) {
    const { battle } = this, pack = battle.selected, row = battle.packs[pack];
    if (!row || battle.winner) return;
    if (!row.alive) return this.tell(false, `pack ${pack + 1} is lost`);
    const told = { pack, ...order, fire: this.fireOf(row) };
    if (this.send({ orders: [told] })) {
      battle.pending.set(pack, told);
      this.tell(true, `pack ${pack + 1}: ${order.kind}${order.target ? ` ${order.target}` : ""}`);
    }
  }

  fireOf(row) {
    return this.fire.get(row.pack) ?? row.order?.fire ?? "free";
  }

  /** Say anew what a pack was told, with another fire discipline. */
  setFire(wish) {
    const row = this.battle.packs[this.battle.selected], order = row && this.battle.order(row);
    if (!row) return;
    this.fire.set(row.pack, this.fireOf(row) === wish ? "free" : wish);
    const kind = order?.kind ?? "free", isKnown = order?.target && this.battle.places.has(order.target);
    this.give({ kind, ...(isKnown ? { target: order.target } : order?.place && kind !== "free" ? { place: order.place } : {}) });
  }

  /** What a key orders; false of one that orders nothing. */
  key(key) {
    if (key in KEYS) {
      const kind = KEYS[key];
      if (AT_PLACE.includes(kind) && !this.cursor) this.tell(false, `${kind}: point at a place first`);
      else this.give({ kind, ...(AT_PLACE.includes(kind) ? { place: this.cursor } : {}) });
    } else if (key in FIRE_KEYS) this.setFire(FIRE_KEYS[key]);
    else if (/^[1-9]$/.test(key)) this.select(Number(key) - 1);
    else return false;
    return true;
  }
}
