// One mech that the person drives by keys and mouse, in place of its policy.

const AXES = { w: ["ahead", 1], s: ["ahead", -1], a: ["left", 1], d: ["left", -1], Shift: ["jets", 1] };
const SWITCHES = ["v", "x"];
const TRIGGERS = ["primary", "secondary", "tertiary"];
const LEAST_MS = 50;

class Stick {
  constructor(field, battle, orders, send, tell) {
    Object.assign(this, { field, battle, orders, send, tell, held: new Map(), fires: false, isTaken: false, isDue: false, last: 0 });
    field.canvas.addEventListener("pointermove", () => (this.isDue = true));
    field.canvas.addEventListener("pointerdown", ({ button }) => button === 0 && this.pull(true));
    window.addEventListener("pointerup", ({ button }) => button === 0 && this.pull(false));
    window.addEventListener("blur", () => this.rest());
  }

  /** The mech whose stick would be taken: the one clicked last, if it lives in the selected pack, else its first. */
  get offered() {
    const mechs = this.battle.packs[this.battle.selected]?.mechs ?? [];
    return (mechs.find(({ name }) => name === this.battle.mech) ?? mechs[0])?.name;
  }

  toggle() {
    if (this.battle.driven) this.release();
    else if (this.offered && !this.battle.winner && !facts.watches) {
      Object.assign(this.battle, { driven: this.offered, facing: null });
      this.rest();
      this.tell(true, `you drive ${this.battle.driven}`);
    }
  }

  release() {
    if (this.battle.driven && this.send({ drive: null })) this.tell(true, `${this.battle.driven} follows its policy again`);
    this.drop();
  }

  /** Forget the stick: it is gone already. */
  drop() {
    Object.assign(this.battle, { driven: null, facing: null });
    Object.assign(this, { isTaken: false, fires: false });
    this.held.clear();
  }

  /** Let go of all keys. */
  rest() {
    this.held.clear();
    Object.assign(this, { fires: false, isDue: true });
  }

  pull(isHeld) {
    if (!this.battle.driven) return;
    Object.assign(this, { fires: isHeld, isDue: true });
  }

  /** A key is pressed or let go; false if it is none of the stick's. Keys of the axes are meant by their place. */
  key(event, isHeld) {
    const isOurs = (key) => key in AXES || SWITCHES.includes(key), place = keyPlace(event);
    const key = place in AXES ? place : meaningOf(event, isOurs), pressed = event.code || key;
    if (!this.battle.driven || !(isHeld ? isOurs(key) : this.held.has(pressed))) return false;
    // By the key and not by what it writes, which Shift may change while it is held.
    if (isHeld) this.held.set(pressed, key);
    else this.held.delete(pressed);
    this.isDue = true;
    return true;
  }

  /** What a report tells of the mech that is driven. */
  hear(driven) {
    const { battle } = this, isOurs = driven?.mech === battle.driven;
    if (!battle.driven) return;
    if (isOurs) Object.assign(battle, { facing: (driven.facing_deg * Math.PI) / 180 });
    else if (this.isTaken) {
      this.tell(false, `${battle.driven} is lost`);
      this.drop();
    }
    this.isTaken = isOurs;
  }

  /** Send what is held, where that has changed. */
  flush(time) {
    if (!this.battle.driven || !this.isDue || time - this.last < LEAST_MS) return;
    Object.assign(this, { isDue: false, last: time });
    const held = new Set(this.held.values()), said = { mech: this.battle.driven, ahead: 0, left: 0, jets: 0, vent: held.has("v") };
    for (const key of held) if (key in AXES) said[AXES[key][0]] += AXES[key][1];
    said.fire = [...(this.fires ? TRIGGERS : []), ...(held.has("x") ? ["special"] : [])];
    if (this.orders.cursor) {
      const enemy = this.orders.within(this.battle.enemies, this.orders.cursor, time);
      Object.assign(said, { face: this.orders.cursor, ...(enemy ? { target: enemy.name } : {}) });
    }
    this.send({ drive: said });
  }
}
