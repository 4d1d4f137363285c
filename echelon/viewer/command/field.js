// The battle from above: lit ground, zone, orders as lines, mechs.

const LINE = { blue: "#0b3c86", red: "#a3330a" };
const HELD = { own: { blue: "#1450a8", red: "#c4481a" }, both: "#b08800", empty: "#ffffff" };
const FREE_PX = 9;

class Field extends Chart {
  /** The picture of the ground lies below the canvas: without a GPU it would cost most of a frame to draw it anew. */
  constructor(canvas, ground, battle) {
    super(canvas, { size: facts.map });
    Object.assign(this, { battle, ground });
    this.setGround(facts.ground);
  }

  setGround(address) {
    if (this.ground.src !== address) this.ground.src = address;
  }

  measure() {
    super.measure();
    const [left, top] = this.spot(0, facts.map[1]), [wide, high] = facts.map.map((side) => side * this.scale);
    Object.assign(this.ground.style, { left: `${left}px`, top: `${top}px`, width: `${wide}px`, height: `${high}px` });
  }

  /** Everything as it is at a time, ms. */
  drawAt(time) {
    const { pen, battle } = this;
    pen.clearRect(0, 0, this.canvas.clientWidth, this.canvas.clientHeight);
    if (!battle.report) return;
    this.drawObjective(battle.report);
    for (const pack of battle.packs) this.drawOrder(pack, time);
    for (const mech of battle.enemies) this.drawEnemy(mech, time);
    for (const pack of battle.packs) for (const mech of pack.mechs) this.drawOwn(mech, pack, time);
  }

  circle([x, y], radius) {
    this.pen.beginPath();
    this.pen.arc(x, y, radius, 0, 2 * Math.PI);
  }

  drawObjective({ zone, control }) {
    const { pen } = this, who = control.own && control.enemy ? "both" : control.own ? facts.team : control.enemy ? ENEMY : "empty";
    this.circle(this.spot(...zone.place), zone.radius * this.scale);
    Object.assign(pen, { fillStyle: HELD.own[who] ?? HELD[who], strokeStyle: HELD.own[who] ?? HELD[who], lineWidth: 2.5, globalAlpha: 0.16 });
    pen.fill();
    pen.globalAlpha = 1;
    pen.stroke();
  }

  /** The line from a pack to where it was sent, dashed until the battle has taken the order. */
  drawOrder(pack, time) {
    const { pen, battle } = this, order = battle.order(pack), from = battle.middle(pack, time), goal = battle.goal(order, time);
    if (!from || !goal) return;
    const isSelected = pack.pack === battle.selected, [x, y] = this.spot(...goal);
    Object.assign(pen, { strokeStyle: LINE[facts.team], fillStyle: LINE[facts.team], lineWidth: isSelected ? 3 : 1.5, globalAlpha: isSelected ? 0.95 : 0.6 });
    pen.setLineDash(battle.pending.has(pack.pack) ? [6, 5] : []);
    pen.beginPath();
    pen.moveTo(...this.spot(...from));
    pen.lineTo(x, y);
    pen.stroke();
    pen.setLineDash([]);
    this.circle([x, y], isSelected ? 6 : 4);
    if (order.kind === "attack") pen.stroke();
    else pen.fill();
    this.write(`${order.kind}`, x, y - 14, true);
    pen.globalAlpha = 1;
  }

  /** Words that can be read on any ground. */
  write(words, x, y, isBold = false) {
    const { pen } = this;
    Object.assign(pen, { font: `${isBold ? 600 : 500} 11px system-ui, sans-serif`, textAlign: "center", textBaseline: "middle" });
    Object.assign(pen, { strokeStyle: "rgba(255,255,255,0.85)", fillStyle: MARK, lineWidth: 3, lineJoin: "round" });
    pen.strokeText(words, x, y);
    pen.fillText(words, x, y);
  }

  /** Half of a hull on the canvas, px. */
  radius(mech) {
    return Math.max(this.halfOf(mech) * this.scale, 7);
  }

  drawOwn(mech, pack, time) {
    const { pen, battle } = this, place = battle.place(mech.name, time), spot = this.spot(...place), radius = this.radius(mech);
    const isDriven = battle.driven === mech.name;
    const look = TEAM_LOOKS[facts.team], heading = (isDriven ? battle.facing : null) ?? battle.headings.get(mech.name);
    if (heading !== undefined) {
      const far = radius / this.scale + (isDriven ? 3 : 0.8);
      pen.beginPath();
      pen.moveTo(...spot);
      pen.lineTo(...this.spot(place[0] + Math.cos(heading) * far, place[1] + Math.sin(heading) * far));
      Object.assign(pen, { strokeStyle: MARK, lineWidth: 2.5 });
      pen.stroke();
    }
    this.circle(spot, radius);
    Object.assign(pen, { fillStyle: look.fill, strokeStyle: pack.pack === battle.selected ? "#ffffff" : MARK, lineWidth: pack.pack === battle.selected ? 3 : 1.2 });
    pen.fill();
    pen.stroke();
    this.drawHurt(mech, ...spot, radius);
    if (isDriven) {
      this.circle(spot, radius + 7);
      Object.assign(pen, { strokeStyle: "#ffd400", lineWidth: 3 });
      pen.stroke();
    }
    if (mech.under_fire) {
      this.circle(spot, radius + 4);
      Object.assign(pen, { strokeStyle: "#d11", lineWidth: 2 });
      pen.stroke();
    }
    Object.assign(pen, { fillStyle: look.text, font: "600 10px system-ui, sans-serif", textAlign: "center", textBaseline: "middle" });
    pen.fillText(mech.name.split("_")[1], ...spot);
  }

  /** A known enemy: a diamond, so that teams differ in shape too. */
  drawEnemy(mech, time) {
    const { pen } = this, [x, y] = this.spot(...this.battle.place(mech.name, time)), radius = 1.2 * this.radius(mech), look = TEAM_LOOKS[ENEMY];
    pen.beginPath();
    for (const [across, down] of [[0, -1], [1, 0], [0, 1], [-1, 0]]) pen.lineTo(x + across * radius, y + down * radius);
    pen.closePath();
    Object.assign(pen, { fillStyle: look.fill, strokeStyle: MARK, lineWidth: 1.4 });
    pen.fill();
    pen.stroke();
    Object.assign(pen, { fillStyle: look.text, font: "600 10px system-ui, sans-serif", textAlign: "center", textBaseline: "middle" });
    pen.fillText(mech.name.split("_")[1], x, y);
    if (this.scale > 7) this.write(mech.hull, x, y + radius + 8);
  }
}
