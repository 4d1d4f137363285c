// The battlefield from above on a plain canvas: for two battles side by side, and where there is no WebGL2.

class PlanScene {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    if (!this.pen) throw new NoWebGL();
    Object.assign(this, { software: false, flat: true, dense: 1, actors: [] });
  }

  open(battle) {
    this.battle = battle;
    this.ground = new Ground(battle);
    this.picture = document.createElement("canvas");
    Object.assign(this.picture, { width: battle.size[0], height: battle.size[1] });
  }

  resize() {
    this.dense = Math.min(window.devicePixelRatio || 1, 2);
    const wide = Math.max(Math.round(this.canvas.clientWidth * this.dense), 1), high = Math.max(Math.round(this.canvas.clientHeight * this.dense), 1);
    if (this.canvas.width !== wide || this.canvas.height !== high) Object.assign(this.canvas, { width: wide, height: high });
    return wide / high;
  }

  /** Where a point of the world lies on the canvas. */
  spot(point) {
    const [x, y, , w] = transform(this.matrix, point);
    return [(x / w + 1) * 0.5 * this.canvas.width, (1 - y / w) * 0.5 * this.canvas.height];
  }

  draw(view) {
    const { pen, battle, canvas } = this;
    this.view = view;
    this.moment = battle.momentAt(view.t);
    this.matrix = view.camera.matrix();
    this.actors = battle.mechs.filter((mech) => battle.isAlive(mech.n, view.t) && view.isShown(mech.n))
      .map((mech) => ({ mech, pose: battle.pose(mech.n, view.t), condition: battle.condition(mech.n, this.moment) }));
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.fillStyle = css(SKIES[view.theme].bottom);
    pen.fillRect(0, 0, canvas.width, canvas.height);
    this.drawGround();
    this.drawZone();
    this.drawClouds(view);
    this.drawFire(view);
    for (const actor of this.actors) this.drawMech(actor);
  }

  drawGround() {
    const [x, y] = this.battle.size, { pen } = this, [a, b, c] = [[0, y, 0], [x, y, 0], [0, 0, 0]].map((corner) => this.spot(corner));
    this.ground.seek(this.moment);
    if (this.ground.dirty.size) this.paintGround();
    this.ground.dirty.clear();
    pen.imageSmoothingEnabled = false;
    pen.setTransform((b[0] - a[0]) / x, (b[1] - a[1]) / x, (c[0] - a[0]) / y, (c[1] - a[1]) / y, ...a);
    pen.drawImage(this.picture, 0, 0);
    pen.setTransform(1, 0, 0, 1, 0, 0);
  }

  /** The topmost voxel of each column, the higher the lighter. */
  paintGround() {
    const { sizeX, sizeY, sizeZ, cells, names, code } = this.ground, pen = this.picture.getContext("2d"), image = pen.createImageData(sizeX, sizeY);
    for (let y = 0; y < sizeY; y++) {
      for (let x = 0; x < sizeX; x++) {
        let z = sizeZ - 1;
        while (z > 0 && cells[(y * sizeX + x) * sizeZ + z] === code.air) z--;
        const colour = MATERIAL_COLOURS[names[cells[(y * sizeX + x) * sizeZ + z]]], light = 0.62 + Math.min(z, 8) * 0.045;
        image.data.set([...colour.map((v) => Math.min(v * light, 1) * 255), 255], ((sizeY - 1 - y) * sizeX + x) * 4);
      }
    }
    pen.putImageData(image, 0, 0);
  }

  ring(middle, radius) {
    this.pen.beginPath();
    for (let i = 0; i <= 48; i++) this.pen.lineTo(...this.spot([middle[0] + radius * Math.cos((i / 24) * Math.PI), middle[1] + radius * Math.sin((i / 24) * Math.PI), middle[2] ?? 0]));
  }

  drawZone() {
    const { pen, battle } = this;
    Object.assign(pen, { strokeStyle: css(zoneColour(battle, this.moment)), fillStyle: css(zoneColour(battle, this.moment), 0.18), lineWidth: 2 * this.dense });
    for (const { center, radius } of battle.zones) {
      this.ring(center, radius);
      pen.fill();
      pen.stroke();
    }
  }

  drawClouds({ t }) {
    const { battle, pen } = this;
    pen.fillStyle = "rgba(225,228,232,0.6)";
    for (const cloud of battle.clouds) {
      if (t < battle.tickEnd(cloud.tick) || t > battle.tickEnd(cloud.end)) continue;
      this.ring([cloud.x, cloud.y, cloud.z].map((v) => v / UNIT.pos), battle.common.cloud_vox);
      pen.fill();
    }
  }

  drawFire(view) {
    const { battle, pen } = this, { t } = view, line = (from, to, colour, wide) => {
      Object.assign(pen, { strokeStyle: colour, lineWidth: wide * this.dense });
      pen.beginPath();
      pen.moveTo(...this.spot(from));
      pen.lineTo(...this.spot(to));
      pen.stroke();
    };
    for (const beam of battle.beams) {
      const age = t - battle.tickEnd(beam.tick) + battle.common.dt_s;
      if (age < 0 || age > BEAM_AFTERGLOW_S || !(view.isShown(beam.shooter) || view.isShown(beam.target))) continue;
      line([beam.x0, beam.y0, beam.z0].map((v) => v / UNIT.pos), [beam.x1, beam.y1, beam.z1].map((v) => v / UNIT.pos), css(TEAM_LIGHT[battle.mechs[beam.shooter].side]), 1.5);
    }
    for (const flight of battle.flights) {
      const launch = battle.tickEnd(flight.launch);
      if (t < launch || t > battle.tickEnd(flight.end) || !(view.isShown(flight.shooter) || view.isShown(flight.victim))) continue;
      line(battle.flightAt(flight, Math.max(t - 0.1, launch)), battle.flightAt(flight, t), "#fff4c2", 2.5);
    }
  }

  drawMech({ mech, pose, condition }) {
    const { pen } = this, c = Math.cos(pose.yaw), s = Math.sin(pose.yaw), [hx, hy] = mech.half;
    pen.beginPath();
    for (const [x, y] of [[1.35, 0], [0.6, 1], [-1, 1], [-1, -1], [0.6, -1]]) pen.lineTo(...this.spot([pose.pos[0] + c * x * hx - s * y * hy, pose.pos[1] + s * x * hx + c * y * hy, pose.pos[2]]));
    pen.closePath();
    Object.assign(pen, { fillStyle: css(TEAM_COLOURS[mech.side], condition.facts & FACT.SHUT_DOWN ? 0.5 : 1), strokeStyle: mech.n === this.view.selected ? "#fff" : "#10141a", lineWidth: (mech.n === this.view.selected ? 2.5 : 1) * this.dense });
    pen.fill();
    pen.stroke();
    if (!(condition.facts & (FACT.FALLEN | FACT.SHUT_DOWN))) return;
    this.ring(pose.pos, Math.hypot(hx, hy));
    pen.setLineDash([3, 3]);
    pen.stroke();
    pen.setLineDash([]);
  }
}
