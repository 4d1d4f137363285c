// What is written over the scene: bars above the mechs, names, the focus target.

const BAR = { narrow: 16, wide: 38, hp: 4, heat: 2 };
const FARTHEST_PUSH = 24;

class Overlay {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
  }

  /** Fit the drawing to the canvas as it is shown. */
  resize() {
    this.dense = window.devicePixelRatio || 1;
    this.wide = this.canvas.clientWidth;
    this.high = this.canvas.clientHeight;
    const size = { width: Math.max(Math.round(this.wide * this.dense), 1), height: Math.max(Math.round(this.high * this.dense), 1) };
    if (this.canvas.width !== size.width || this.canvas.height !== size.height) Object.assign(this.canvas, size);
  }

  /** Where a point of the world lies on the canvas, `[x, y, w]`, or null behind the camera. */
  project(matrix, point) {
    const [x, y, , w] = transform(matrix, point);
    return w > 0.1 ? [(x / w + 1) * 0.5 * this.wide, (1 - y / w) * 0.5 * this.high, w] : null;
  }

  draw(scene, view) {
    const { pen } = this;
    this.resize();
    pen.setTransform(this.dense, 0, 0, this.dense, 0, 0);
    pen.clearRect(0, 0, this.wide, this.high);
    pen.font = "600 10px system-ui, sans-serif";
    drawLayers(this, scene, view, scene.battle);
    this.markFocus(scene, view);
    if (view.showFocus) drawIntent(this, scene, view, scene.battle);
    if (view.flight) drawPath(this, scene, scene.battle, view.flight);
    if (view.showTags && !view.showBars) for (const label of this.arrange(scene, view)) this.drawTag(label.mech, label.x, label.y - 3);
    if (view.showBars) for (const label of this.arrange(scene, view)) this.drawLabel(label, view);
  }

  /** Labels from the farthest to the nearest, named ones last, pushed up where they would cover each other. */
  arrange(scene, view) {
    const labels = scene.actors.map(({ mech, pose, condition }) => {
      const lift = pose.fallen > 0.5 ? mech.half[1] : mech.half[2];
      const at = this.project(scene.matrix, add(pose.pos, [0, 0, lift + 0.7]));
      const scale = at && this.high / 2 / Math.tan(view.camera.now.fov / 2) / at[2];
      const wide = clamp(Math.round(scale * 2), BAR.narrow, BAR.wide);
      return at && { mech, condition, wide, x: at[0], y: at[1], home: at[1], w: at[2] };
    }).filter((label) => label && label.x > -40 && label.x < this.wide + 40 && label.y > -20 && label.y < this.high + 20);
    labels.sort((a, b) => b.y - a.y);
    const placed = [];
    for (const label of labels) {
      label.high = this.isNamed(label.mech, view) || view.showTags ? 22 : 9;
      for (const other of placed) {
        const beside = Math.abs(label.x - other.x) > (label.wide + other.wide) / 2 + 3;
        if (!beside && label.y > other.y - other.high - 1) label.y = Math.min(label.y, other.y - other.high - 2);
      }
      if (label.home - label.y < FARTHEST_PUSH || this.isNamed(label.mech, view)) placed.push(label);
    }
    const named = (label) => (this.isNamed(label.mech, view) ? 1 : 0);
    return placed.sort((a, b) => named(a) - named(b) || b.w - a.w);
  }

  isNamed(mech, view) {
    return mech.n === view.selected || mech.n === view.hovered;
  }

  drawLabel({ mech, condition, wide, x, y }, view) {
    const { pen } = this, left = Math.round(x - wide / 2), top = Math.round(y - BAR.hp - BAR.heat - 3);
    pen.fillStyle = "rgba(10,13,17,0.78)";
    pen.beginPath();
    pen.roundRect(left - 1.5, top - 1.5, wide + 3, BAR.hp + BAR.heat + 4, 2.5);
    pen.fill();
    if (mech.n === view.selected) {
      pen.strokeStyle = "#fff";
      pen.lineWidth = 1.25;
      pen.stroke();
    }
    pen.fillStyle = css(TEAM_COLOURS[mech.side].map((v) => v * 1.08));
    pen.fillRect(left, top, wide * clamp(condition.hp, 0, 1), BAR.hp);
    pen.fillStyle = condition.heat > 1 ? "#ff3b30" : condition.heat > 0.8 ? "#ff9f0a" : "#ffd60a";
    pen.fillRect(left, top + BAR.hp + 1, (wide * clamp(condition.heat, 0, 1.5)) / 1.5, BAR.heat);
    if (this.isNamed(mech, view)) this.drawName(mech, x, top - 5);
    else if (view.showTags) this.drawTag(mech, x, top - 3);
    else this.drawState(condition.facts, left + wide + 5, top + 6);
  }

  drawTag(mech, x, y) {
    const { pen } = this, wide = pen.measureText(mech.tag).width;
    Object.assign(pen, { lineWidth: 3, strokeStyle: "rgba(10,13,17,0.85)", fillStyle: css(TEAM_LIGHT[mech.side]) });
    pen.strokeText(mech.tag, x - wide / 2, y);
    pen.fillText(mech.tag, x - wide / 2, y);
  }

  drawName(mech, x, y) {
    const { pen } = this, wide = pen.measureText(mech.name).width;
    pen.fillStyle = "rgba(10,13,17,0.78)";
    pen.beginPath();
    pen.roundRect(x - wide / 2 - 5, y - 11, wide + 10, 14, 3);
    pen.fill();
    pen.fillStyle = "#fff";
    pen.fillText(mech.name, x - wide / 2, y);
  }

  /** A small sign beside the bars for a mech that cannot act. */
  drawState(facts, x, y) {
    const sign = facts & FACT.SHUT_DOWN ? "off" : facts & FACT.FALLEN ? "down" : "";
    if (!sign) return;
    const { pen } = this;
    pen.lineWidth = 3;
    pen.strokeStyle = "rgba(10,13,17,0.8)";
    pen.strokeText(sign, x, y);
    pen.fillStyle = "#fff";
    pen.fillText(sign, x, y);
  }

  /** Brackets around the mech that the selected one prefers to aim at. */
  markFocus(scene, view) {
    const actor = scene.actors.find(({ mech }) => mech.n === view.selected);
    const target = actor && scene.actors.find(({ mech }) => mech.n === actor.condition.focus);
    if (!target) return;
    const { half } = target.mech, { pen } = this;
    const middle = this.project(scene.matrix, target.pose.pos);
    if (!middle) return;
    const top = this.project(scene.matrix, add(target.pose.pos, scene.view.camera.axes().up.map((v) => v * half[2])));
    const reach = Math.max(Math.hypot(top[0] - middle[0], top[1] - middle[1]) * 1.15, 10), arm = reach * 0.4;
    pen.lineWidth = 2;
    pen.strokeStyle = "#ffe14d";
    pen.beginPath();
    for (const [sx, sy] of [[-1, -1], [1, -1], [1, 1], [-1, 1]]) {
      const x = middle[0] + sx * reach, y = middle[1] + sy * reach;
      pen.moveTo(x - sx * arm, y);
      pen.lineTo(x, y);
      pen.lineTo(x, y - sy * arm);
    }
    pen.stroke();
  }

  /** The shown mech under a point of the canvas, or -1. */
  pick(scene, camera, x, y) {
    const ray = camera.ray((x / this.wide) * 2 - 1, 1 - (y / this.high) * 2);
    let best = -1, nearest = Infinity;
    for (const { mech, pose } of scene.actors) {
      const far = entersBox(camera.eye, ray, pose.pos, mech.half.map((h) => h + 0.45));
      if (far < nearest) [best, nearest] = [mech.n, far];
    }
    return best;
  }
}

/** How far along a ray a box begins; infinity where it misses. */
function entersBox(eye, ray, middle, half) {
  let near = 0, far = Infinity;
  for (let axis = 0; axis < 3; axis++) {
    const a = (middle[axis] - half[axis] - eye[axis]) / ray[axis], b = (middle[axis] + half[axis] - eye[axis]) / ray[axis];
    near = Math.max(near, Math.min(a, b));
    far = Math.min(far, Math.max(a, b));
  }
  return near <= far ? near : Infinity;
}
