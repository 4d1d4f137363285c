// The course of the battle at a glance: scores, who held the zone, kills, and the playhead.

const EDGE = 10, KILL_ROWS = 14, CONTROL_HIGH = 5, LABELS_HIGH = 14, CHART_HIGH = 76;
/** How near a press must be to a mark to mean it. */
const MARK_PX = 5;

class Timeline {
  constructor(canvas, readout, on) {
    Object.assign(this, { canvas, readout, on });
    this.pen = canvas.getContext("2d");
    this.still = document.createElement("canvas");
    canvas.addEventListener("pointerdown", (event) => this.grab(event));
    canvas.addEventListener("pointermove", (event) => this.tell(event));
    canvas.addEventListener("pointerleave", () => (readout.textContent = ""));
  }

  open(battle) {
    this.battle = battle;
    this.course = courseOf(battle);
    this.lanes = lanesOf(battle, this.course);
    this.readout.textContent = "";
    this.stale = true;
    this.canvas.setAttribute("aria-valuemax", battle.lengthS);
  }

  /** Say what stands under the pointer. */
  tell(event) {
    const place = this.canvas.getBoundingClientRect(), x = event.clientX - place.left;
    const t = this.timeAt(x), death = this.markAt(x, event.clientY - place.top);
    this.canvas.style.cursor = death ? "pointer" : "";
    const mark = death ? `${this.battle.mechs[death.victim].name} died · ` : "";
    this.readout.textContent = mark + readoutOf(this.battle, this.course, t);
    const half = this.readout.offsetWidth / 2, { innerWidth } = window;
    this.readout.style.left = `${clamp(event.clientX, half + 4, Math.max(innerWidth - half - 4, half + 4))}px`;
    this.readout.style.bottom = `${window.innerHeight - place.top + 8}px`;
  }

  /** The death whose mark lies at a point, if one does. */
  markAt(x, y) {
    if (y > KILL_ROWS + 3) return undefined;
    const away = (death) => Math.abs(this.xOf(this.battle.tickEnd(death.tick)) - x);
    return this.battle.deaths.filter((death) => away(death) <= MARK_PX).sort((a, b) => away(a) - away(b))[0];
  }

  grab(event) {
    const place = this.canvas.getBoundingClientRect(), death = this.markAt(event.clientX - place.left, event.clientY - place.top);
    if (death) return this.on.mark(death);
    this.canvas.setPointerCapture(event.pointerId);
    this.canvas.focus({ preventScroll: true });
    const move = (e) => this.on.seek(this.timeAt(e.clientX - this.canvas.getBoundingClientRect().left));
    const drop = () => {
      this.canvas.removeEventListener("pointermove", move);
      this.canvas.removeEventListener("pointerup", drop);
      this.canvas.removeEventListener("pointercancel", drop);
    };
    this.canvas.addEventListener("pointermove", move);
    this.canvas.addEventListener("pointerup", drop);
    this.canvas.addEventListener("pointercancel", drop);
    move(event);
  }

  /** The time at a place; that of a decision where one lies within a pixel, so that a press on 20 s is 20 s. */
  timeAt(x) {
    const perPx = this.battle.lengthS / Math.max(this.wide - 2 * EDGE, 1);
    const t = clamp((x - EDGE) * perPx, 0, this.battle.lengthS) || 0, { decisionS } = this.battle;
    const near = Math.round(t / decisionS) * decisionS;
    return Math.abs(near - t) <= perPx ? near : t;
  }

  xOf(t) {
    return EDGE + (t / (this.battle.lengthS || 1)) * (this.wide - 2 * EDGE);
  }

  resize() {
    const dense = window.devicePixelRatio || 1, { clientWidth, clientHeight } = this.canvas;
    if (clientWidth === this.wide && clientHeight === this.high && dense === this.dense) return;
    Object.assign(this, { wide: clientWidth, high: clientHeight, dense, stale: true });
    for (const canvas of [this.canvas, this.still]) {
      canvas.width = Math.max(Math.round(clientWidth * dense), 1);
      canvas.height = Math.max(Math.round(clientHeight * dense), 1);
    }
  }

  draw(t) {
    this.resize();
    if (this.stale) this.drawStill();
    const { pen } = this, x = this.xOf(t);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.drawImage(this.still, 0, 0);
    pen.setTransform(this.dense, 0, 0, this.dense, 0, 0);
    pen.fillStyle = this.colours.text;
    pen.fillRect(x - 0.75, 0, 1.5, this.chartHigh - LABELS_HIGH + 2);
    if (this.hasLanes) pen.fillRect(x - 0.5, this.chartHigh, 1, this.high - this.chartHigh);
    pen.beginPath();
    pen.arc(x, 5, 5, 0, 7);
    pen.fill();
    this.canvas.setAttribute("aria-valuenow", t.toFixed(2));
    this.canvas.setAttribute("aria-valuetext", readoutOf(this.battle, this.course, t));
  }

  /** What does not move with the playhead. */
  drawStill() {
    this.stale = false;
    const style = getComputedStyle(this.canvas), colour = (name) => style.getPropertyValue(name).trim();
    this.colours = { text: colour("--text"), dim: colour("--dim"), line: colour("--line"), panel: colour("--panel"), contested: colour("--contested"), teams: [colour("--blue"), colour("--red")] };
    const pen = this.still.getContext("2d");
    pen.setTransform(this.dense, 0, 0, this.dense, 0, 0);
    pen.clearRect(0, 0, this.wide, this.high);
    this.drawSeconds(pen);
    for (const side of [0, 1]) this.drawScore(pen, side);
    this.drawControl(pen);
    this.drawKills(pen);
    if (this.hasLanes) drawLanes(pen, this, this.chartHigh + 2, this.high - 2);
  }

  /** Height of its text, px. */
  get textHigh() {
    return document.documentElement.hasAttribute("data-large") ? 12 : 10;
  }

  get font() {
    return `${this.textHigh}px system-ui, sans-serif`;
  }

  /** Whether there is room below the scores. */
  get hasLanes() {
    return this.high > CHART_HIGH + 40;
  }

  get chartHigh() {
    return this.hasLanes ? CHART_HIGH : this.high;
  }

  get chart() {
    return { top: KILL_ROWS + 5, bottom: this.chartHigh - LABELS_HIGH - CONTROL_HIGH - 3 };
  }

  drawSeconds(pen) {
    const every = this.wide / this.battle.lengthS > 9 ? 5 : this.wide / this.battle.lengthS > 3.5 ? 10 : 20;
    pen.font = this.font;
    pen.textAlign = "center";
    for (let s = 0; s <= this.battle.lengthS; s += every) {
      pen.fillStyle = this.colours.line;
      pen.fillRect(Math.round(this.xOf(s)), KILL_ROWS, 1, this.chartHigh - LABELS_HIGH - KILL_ROWS);
      pen.fillStyle = this.colours.dim;
      pen.fillText(`${s}`, this.xOf(s), this.chartHigh - 3);
    }
  }

  drawScore(pen, side) {
    const { top, bottom } = this.chart, { battle } = this, win = battle.common.zone_score_to_win_s;
    const high = (m) => bottom - clamp(battle.score(side, m) / win, 0, 1) * (bottom - top);
    pen.beginPath();
    pen.moveTo(this.xOf(0), bottom);
    for (let m = 0; m < battle.moments; m++) pen.lineTo(this.xOf(m * battle.decisionS), high(m));
    pen.strokeStyle = this.colours.teams[side];
    pen.lineWidth = 1.75;
    pen.lineJoin = "round";
    pen.stroke();
    pen.lineTo(this.xOf(battle.lengthS), bottom);
    pen.globalAlpha = 0.16;
    pen.fillStyle = this.colours.teams[side];
    pen.fill();
    pen.globalAlpha = 1;
  }

  /** A strip that tells who held the zone. */
  drawControl(pen) {
    const { battle } = this, top = this.chartHigh - LABELS_HIGH - CONTROL_HIGH;
    for (let m = 1; m < battle.moments; m++) {
      const holder = holderAt(battle, m), x = this.xOf((m - 1) * battle.decisionS), wide = this.xOf(m * battle.decisionS) - x + 0.3;
      pen.fillStyle = holder < 0 ? this.colours.line : holder === 2 ? this.colours.contested : this.colours.teams[holder];
      pen.fillRect(x, top, wide, CONTROL_HIGH - 1);
    }
  }

  /** A tick for each death in the colour of the dead: blue in the upper row, red in the lower. */
  drawKills(pen) {
    for (const death of this.battle.deaths) {
      const { side } = this.battle.mechs[death.victim], x = this.xOf(this.battle.tickEnd(death.tick));
      pen.fillStyle = this.colours.teams[side];
      pen.beginPath();
      pen.roundRect(x - 1.5, side ? 8.5 : 1, 3, 6.5, 1);
      pen.fill();
    }
  }
}
