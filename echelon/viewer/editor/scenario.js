"use strict";
// The scenario as its JSON, what is selected of it, and how both change. Nothing here draws.

const facts = JSON.parse(document.getElementById("data").textContent);
const TEAMS = ["blue", "red"];
const UNIT_DEFAULTS = { bottom: -1, facing_deg: 0, hp: 1, leg_hp: 1, heat: 0, cooldown_s: {} };
const OBJECTIVE_DEFAULTS = { kind: "zone", attackers: "blue", seconds: 0, control_s: 0, mech: "", mechs: 1, second_zone: [] };
/** Keys that the page has fields for; the others are settings, which it shows as JSON. */
const DRAWN = ["preset", "zone", "objective", "boxes", "units"];
const MOST_UNDONE = 200;

const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
const toHalf = (x) => Math.round(x * 2) / 2;

/** Where a mech is drawn, x and y: one that begins in an area in the middle of it. */
const placeOf = ({ x, y, area }) => (area ? [(area[0] + area[2]) / 2, (area[1] + area[3]) / 2] : [x, y]);

/** An object without the fields that have their defaults, as a file holds it. */
const withoutDefaults = (row, defaults) =>
  Object.fromEntries(Object.entries(row).filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(defaults[key])));

class Edited {
  constructor(values) {
    this.values = { preset: "small", zone: [], boxes: [], units: [], ...values };
    this.selected = null;
    this.before = [];
    this.saved = JSON.stringify(this.values);
  }

  get isSaved() {
    return JSON.stringify(this.values) === this.saved;
  }

  /** Vox along x, y and z. */
  get size() {
    const own = this.values.world ?? {}, sides = facts.presets[this.values.preset];
    return ["size_x", "size_y", "size_z"].map((name, axis) => (Number.isInteger(own[name]) ? clamp(own[name], 1, 500) : sides[axis]));
  }

  get objective() {
    return { ...OBJECTIVE_DEFAULTS, ...this.values.objective };
  }

  /** Column x, y and radius of a zone, its default where none is written. */
  circle(kind) {
    const [x, y] = this.size;
    const written = kind === "second" ? this.objective.second_zone : this.values.zone;
    return written.length === 3 ? written : kind === "second" ? [Math.floor(x / 4), Math.floor(y / 2), 5] : [Math.floor(x / 2), Math.floor(y / 2), 7.5];
  }

  get zones() {
    return this.objective.kind === "king_of_two" ? ["zone", "second"] : ["zone"];
  }

  /** The selected unit or box, or nothing. */
  get row() {
    const { kind, at } = this.selected ?? {};
    return kind === "unit" ? this.values.units[at] : kind === "box" ? this.values.boxes[at] : undefined;
  }

  nameOf(at) {
    const { team } = this.values.units[at];
    return `${team}_${this.values.units.slice(0, at).filter((unit) => unit.team === team).length}`;
  }

  get names() {
    return this.values.units.map((_, at) => this.nameOf(at));
  }

  /** Keep how it is, so that `undo` brings it back: to be called before each change that a person makes. */
  remember() {
    const now = JSON.stringify(this.values);
    if (this.before[this.before.length - 1] !== now) this.before.push(now);
    if (this.before.length > MOST_UNDONE) this.before.shift();
  }

  undo() {
    const now = JSON.stringify(this.values);
    while (this.before.length) {
      const last = this.before.pop();
      if (last === now) continue;
      this.values = JSON.parse(last);
      this.selected = null;
      return;
    }
  }

  place(team, hull, x, y) {
    this.remember();
    const facing = team === "red" ? { facing_deg: 180 } : {};
    this.values.units.push({ team, hull, x: toHalf(x), y: toHalf(y), ...facing });
    this.selected = { kind: "unit", at: this.values.units.length - 1 };
  }

  draw(low, high, material) {
    this.remember();
    this.values.boxes.push({ low, high, ...(material === "solid" ? {} : { material }) });
    this.selected = { kind: "box", at: this.values.boxes.length - 1 };
  }

  remove() {
    const { kind, at } = this.selected ?? {};
    if (kind !== "unit" && kind !== "box") return;
    this.remember();
    this.values[kind === "unit" ? "units" : "boxes"].splice(at, 1);
    this.selected = null;
  }

  setUnit(changes) {
    const { at } = this.selected, { team, hull, x, y, ...rest } = { ...UNIT_DEFAULTS, ...this.row, ...changes };
    this.values.units[at] = { team, hull, x, y, ...withoutDefaults(rest, UNIT_DEFAULTS) };
  }

  setBox(changes) {
    const { low, high, material } = { material: "solid", ...this.row, ...changes };
    this.values.boxes[this.selected.at] = { low, high, ...withoutDefaults({ material }, { material: "solid" }) };
  }

  setObjective(changes) {
    const wanted = { ...this.objective, ...changes };
    const own = ["kind", ...facts.objectives[wanted.kind]];
    if (wanted.kind === "king_of_two") wanted.second_zone = this.circleOf(wanted.second_zone);
    const kept = withoutDefaults(Object.fromEntries(own.map((name) => [name, wanted[name]])), OBJECTIVE_DEFAULTS);
    if (Object.keys(kept).length) this.values.objective = kept;
    else delete this.values.objective;
  }

  circleOf(written) {
    return written.length === 3 ? written : this.circle("second");
  }

  setCircle(kind, circle) {
    if (kind === "second") this.setObjective({ second_zone: circle });
    else this.values.zone = circle;
  }

  /** Put the selected at a place: a unit's centre, a box's lower corner, a zone's centre. */
  moveTo(x, y) {
    const { kind } = this.selected, [sizeX, sizeY] = this.size;
    if (kind === "unit" && this.row.area) {
      const { area } = this.row, [oldX, oldY] = placeOf(this.row);
      const dx = clamp(x - oldX, -area[0], sizeX - area[2]), dy = clamp(y - oldY, -area[1], sizeY - area[3]);
      this.setUnit({ area: area.map((side, at) => side + (at % 2 ? dy : dx)) });
    } else if (kind === "unit") this.setUnit({ x: clamp(x, 0, sizeX), y: clamp(y, 0, sizeY) });
    else if (kind === "box") {
      const { low, high } = this.row, wide = [high[0] - low[0], high[1] - low[1]];
      const corner = [clamp(Math.round(x), 0, sizeX - wide[0]), clamp(Math.round(y), 0, sizeY - wide[1])];
      this.setBox({ low: [...corner, low[2]], high: [corner[0] + wide[0], corner[1] + wide[1], high[2]] });
    } else this.setCircle(kind, [clamp(Math.round(x), 0, sizeX - 1), clamp(Math.round(y), 0, sizeY - 1), this.circle(kind)[2]]);
  }

  /** Where `moveTo` would put the selected so that it stays. */
  get spot() {
    const { kind } = this.selected;
    return kind === "unit" ? placeOf(this.row) : kind === "box" ? this.row.low.slice(0, 2) : this.circle(kind).slice(0, 2);
  }

  nudge(dx, dy) {
    if (!this.selected) return;
    this.remember();
    const [x, y] = this.spot;
    this.moveTo(x + dx, y + dy);
  }

  turn(degrees) {
    if (this.selected?.kind !== "unit") return;
    this.remember();
    this.face((this.row.facing_deg ?? 0) + degrees);
  }

  /** Head the selected mech to an angle, told as one above -180 and up to 180. */
  face(degrees) {
    this.setUnit({ facing_deg: 180 - ((((180 - degrees) % 360) + 360) % 360) });
  }

  /** What is neither ground nor mechs. */
  get settings() {
    return Object.fromEntries(Object.entries(this.values).filter(([key]) => !DRAWN.includes(key)));
  }

  setSettings(settings) {
    const drawn = Object.entries(this.values).filter(([key]) => DRAWN.includes(key));
    const { preset, ...rest } = Object.fromEntries(drawn);
    this.values = { preset, ...Object.fromEntries(Object.entries(settings).filter(([key]) => !DRAWN.includes(key))), ...rest };
  }
}
