// What a cockpit perceives, drawn around the mech: its nose points up.

const RING_STEPS = [20, 40, 80, 160];
/** What is near is drawn wider apart: distances count by this power. */
const NEARNESS = 0.6;

class Radar {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
  }

  /** Draw the perception of mech `n` at moment `m`. */
  draw(battle, n, m) {
    const dense = densityOf(this.canvas), side = this.canvas.clientWidth, { pen } = this;
    if (!side) return;
    if (this.canvas.width !== Math.round(side * dense)) this.canvas.width = this.canvas.height = Math.round(side * dense);
    const style = getComputedStyle(this.canvas), colour = (name) => style.getPropertyValue(name).trim();
    this.colours = { text: colour("--text"), dim: colour("--dim"), line: colour("--line"), well: colour("--well"), contested: colour("--contested"), teams: [colour("--blue"), colour("--red")] };
    Object.assign(this, { battle, n, m, side, middle: side / 2, rim: side / 2 - 15 });
    this.here = battle.posAt(n, m);
    this.yaw = battle.yawAt(n, m);
    this.contacts = battle.contactsOf(n, m);
    this.reach = this.chooseReach();
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    pen.clearRect(0, 0, side, side);
    this.drawRings();
    if (!battle.has(n, m, FACT.ALIVE)) return;
    this.drawInside();
    this.drawNoise();
    this.drawPath();
  }

  /** The radius of the picture, vox: far enough for every contact. */
  chooseReach() {
    const far = Math.max(...this.contacts.map((contact) => this.offset(contact.n).far), 14);
    return RING_STEPS.find((step) => step >= far) ?? RING_STEPS.at(-1);
  }

  /** Where another mech lies in the body frame: ahead, left, distance, bearing to the right. */
  offset(other) {
    return bodyOffset(this.here, this.yaw, this.battle.posAt(other, this.m));
  }

  /** A point of the body frame on the canvas. */
  spot(ahead, left) {
    const far = Math.hypot(ahead, left), k = far > 0 ? this.radiusOf(far) / far : 0;
    return [this.middle - left * k, this.middle - ahead * k];
  }

  /** How far from the middle a distance is drawn. */
  radiusOf(far) {
    return this.rim * Math.min(far / this.reach, 1) ** NEARNESS;
  }

  drawRings() {
    const { pen, middle, rim } = this;
    pen.fillStyle = this.colours.well;
    pen.beginPath();
    pen.arc(middle, middle, rim, 0, 7);
    pen.fill();
    pen.strokeStyle = this.colours.line;
    pen.lineWidth = 1;
    for (const share of [0.125, 0.25, 0.5, 1]) {
      pen.beginPath();
      pen.arc(middle, middle, this.radiusOf(this.reach * share), 0, 7);
      pen.stroke();
    }
    pen.beginPath();
    pen.moveTo(middle, middle - rim);
    pen.lineTo(middle, middle + rim);
    pen.moveTo(middle - rim, middle);
    pen.lineTo(middle + rim, middle);
    pen.stroke();
    pen.fillStyle = this.colours.dim;
    pen.font = "10px system-ui, sans-serif";
    for (const share of [0.25, 0.5, 1]) {
      pen.fillText(`${this.reach * share}${share === 1 ? " vox" : ""}`, middle + 3, middle + this.radiusOf(this.reach * share) - 4);
    }
  }

  drawInside() {
    const { pen, middle, rim } = this;
    pen.save();
    pen.beginPath();
    pen.arc(middle, middle, rim, 0, 7);
    pen.clip();
    this.drawZone();
    this.drawArcs();
    for (const n of this.unknown()) this.drawGhost(n);
    pen.restore();
    const contactOf = new Map(this.contacts.map((contact) => [contact.n, contact]));
    for (const mate of this.battle.mechs[this.n].squad) {
      if (!contactOf.has(mate) && this.battle.has(mate, this.m, FACT.ALIVE)) this.drawMate(mate);
    }
    for (const contact of this.contacts) this.drawContact(contact);
    this.drawSelf();
  }

  /** Living mechs that it knows nothing of. */
  unknown() {
    const known = this.battle.knownTo(this.n, this.m);
    return this.battle.mechs.map((mech) => mech.n).filter((n) => !known.has(n) && this.battle.has(n, this.m, FACT.ALIVE));
  }

  drawZone() {
    const longest = Math.max(this.battle.size[0], this.battle.size[1]), { pen } = this;
    const [ahead, left] = this.battle.ego(this.n, this.m, "zone_vector").map((v) => v * longest);
    const radius = this.battle.ego(this.n, this.m, "zone_radius")[0] * longest;
    const holder = holderAt(this.battle, this.m);
    pen.beginPath();
    for (let i = 0; i <= 64; i++) {
      const turn = (i / 32) * Math.PI;
      pen.lineTo(...this.spot(ahead + radius * Math.cos(turn), left + radius * Math.sin(turn)));
    }
    pen.fillStyle = pen.strokeStyle = holder === 0 || holder === 1 ? this.colours.teams[holder] : holder === 2 ? this.colours.contested : this.colours.dim;
    pen.globalAlpha = 0.13;
    pen.fill();
    pen.globalAlpha = 0.8;
    pen.stroke();
    pen.globalAlpha = 1;
  }

  /** Wedges within which its weapons reach. */
  drawArcs() {
    const { pen, middle } = this;
    pen.fillStyle = pen.strokeStyle = this.colours.text;
    for (const weapon of this.battle.mechs[this.n].weapons) {
      const spec = this.battle.common.weapon_specs[weapon];
      if (spec.range_vox > 30 || spec.effect === "cloud") continue;
      const half = (spec.arc_deg / 360) * Math.PI;
      pen.beginPath();
      pen.moveTo(middle, middle);
      pen.arc(middle, middle, this.radiusOf(spec.range_vox), -Math.PI / 2 - half, -Math.PI / 2 + half);
      pen.closePath();
      pen.globalAlpha = 0.05;
      pen.fill();
      pen.globalAlpha = 0.18;
      pen.stroke();
      pen.globalAlpha = 1;
    }
  }

  /** The spot of a mech; at the rim where it lies beyond. */
  spotOf(n) {
    const { ahead, left } = this.offset(n);
    return this.spot(ahead, left);
  }

  colourOf(n) {
    return this.colours.teams[this.battle.mechs[n].side];
  }

  drawGhost(n) {
    const [x, y] = this.spotOf(n), { pen } = this;
    pen.globalAlpha = 0.55;
    pen.strokeStyle = this.colourOf(n);
    pen.setLineDash([2, 2]);
    pen.lineWidth = 1;
    pen.beginPath();
    pen.arc(x, y, 4, 0, 7);
    pen.stroke();
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  }

  drawMate(n) {
    const [x, y] = this.spotOf(n), { pen } = this;
    pen.fillStyle = this.colourOf(n);
    pen.fillRect(x - 2.5, y - 2.5, 5, 5);
  }

  /** A contact: hostiles are diamonds, friends discs; filled with detail, hollow on intel; a ring when painted. */
  drawContact({ n, facts }) {
    const [x, y] = this.spotOf(n), { pen } = this, reach = 3.4 + this.battle.mechs[n].half[1] * 1.3;
    pen.beginPath();
    if (facts & SHOWN.HOSTILE) for (const [dx, dy] of [[0, -1], [1, 0], [0, 1], [-1, 0]]) pen.lineTo(x + dx * reach * 1.2, y + dy * reach * 1.2);
    else pen.arc(x, y, reach, 0, 7);
    pen.closePath();
    pen.lineWidth = 1.6;
    pen.strokeStyle = pen.fillStyle = this.colourOf(n);
    if (facts & SHOWN.INTEL) pen.setLineDash([]);
    else {
      pen.globalAlpha = facts & SHOWN.DETAIL ? 1 : 0.45;
      pen.fill();
      pen.globalAlpha = 1;
    }
    pen.stroke();
    if (facts & SHOWN.PAINTED) {
      pen.beginPath();
      pen.arc(x, y, reach + 4.5, 0, 7);
      pen.strokeStyle = this.colours.text;
      pen.lineWidth = 1;
      pen.stroke();
    }
    if (n === this.battle.at("focus", this.n, this.m)) this.bracket(x, y, reach + 6);
  }

  bracket(x, y, reach) {
    const { pen } = this;
    pen.strokeStyle = this.colours.text;
    pen.lineWidth = 1.5;
    pen.beginPath();
    for (const [sx, sy] of [[-1, -1], [1, -1], [1, 1], [-1, 1]]) {
      pen.moveTo(x + sx * reach * 0.5, y + sy * reach);
      pen.lineTo(x + sx * reach, y + sy * reach);
      pen.lineTo(x + sx * reach, y + sy * reach * 0.5);
    }
    pen.stroke();
  }

  drawSelf() {
    const { pen, middle } = this;
    pen.fillStyle = this.colourOf(this.n);
    pen.strokeStyle = this.colours.text;
    pen.lineWidth = 1.25;
    pen.beginPath();
    for (const [dx, dy] of [[0, -8], [6, 6], [0, 3], [-6, 6]]) pen.lineTo(middle + dx, middle + dy);
    pen.closePath();
    pen.fill();
    pen.stroke();
  }

  /** Noise from ahead, left, behind and right: arcs around the rim, the louder the stronger. */
  drawNoise() {
    const { pen, middle, rim } = this, turns = [-Math.PI / 2, Math.PI, Math.PI / 2, 0];
    this.battle.ego(this.n, this.m, "acoustics").forEach((loud, i) => {
      if (loud < 0.02) return;
      pen.beginPath();
      pen.arc(middle, middle, rim + 6, turns[i] - 0.7, turns[i] + 0.7);
      pen.lineWidth = 5;
      pen.strokeStyle = "#d9a520";
      pen.globalAlpha = clamp(0.2 + loud * 1.6, 0, 1);
      pen.stroke();
      pen.globalAlpha = 1;
    });
  }

  /** An arrow at the rim along the path to the zone. */
  drawPath() {
    const [ahead, left] = this.battle.ego(this.n, this.m, "path_direction"), long = Math.hypot(ahead, left);
    if (long < 0.2) return;
    const { pen, middle, rim } = this, a = Math.atan2(-ahead, -left);
    pen.save();
    pen.translate(middle, middle);
    pen.rotate(a);
    pen.fillStyle = this.colours.text;
    pen.beginPath();
    for (const [x, y] of [[rim - 1, 0], [rim - 10, -5], [rim - 7, 0], [rim - 10, 5]]) pen.lineTo(x, y);
    pen.closePath();
    pen.fill();
    pen.restore();
  }
}

/** Where a point lies in a body frame: `ahead`, `left`, `far` (vox) and `bearing` (degrees, positive to the right). */
function bodyOffset(here, yaw, there) {
  const [dx, dy, dz] = sub(there, here), c = Math.cos(yaw), s = Math.sin(yaw);
  const ahead = c * dx + s * dy, left = -s * dx + c * dy;
  return { ahead, left, far: Math.hypot(dx, dy, dz), bearing: (-Math.atan2(left, ahead) * 180) / Math.PI };
}
