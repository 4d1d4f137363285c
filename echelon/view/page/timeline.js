// The course of the battle at a glance: scores, who held the zone, kills, and the playhead.

const EDGE = 10, KILL_ROWS = 14, CONTROL_HIGH = 5, LABELS_HIGH = 14;

class Timeline {
  constructor(canvas, onSeek) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.onSeek = onSeek;
    this.still = document.createElement("canvas");
    canvas.addEventListener("pointerdown", (event) => this.grab(event));
  }

  open(battle) {
    this.battle = battle;
    this.stale = true;
    this.canvas.setAttribute("aria-valuemax", battle.lengthS);
  }

  grab(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.canvas.focus({ preventScroll: true });
    const move = (e) => this.onSeek(this.timeAt(e.clientX - this.canvas.getBoundingClientRect().left));
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

  timeAt(x) {
    return (clamp((x - EDGE) / (this.wide - 2 * EDGE), 0, 1) || 0) * this.battle.lengthS;
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
    pen.fillRect(x - 0.75, 0, 1.5, this.high - LABELS_HIGH + 2);
    pen.beginPath();
    pen.arc(x, 5, 5, 0, 7);
    pen.fill();
    this.canvas.setAttribute("aria-valuenow", t.toFixed(2));
    this.canvas.setAttribute("aria-valuetext", `${t.toFixed(1)} seconds`);
  }

  /** What does not move with the playhead. */
  drawStill() {
    this.stale = false;
    const style = getComputedStyle(this.canvas), colour = (name) => style.getPropertyValue(name).trim();
    this.colours = { text: colour("--text"), dim: colour("--dim"), line: colour("--line"), teams: [colour("--blue"), colour("--red")] };
    const pen = this.still.getContext("2d");
    pen.setTransform(this.dense, 0, 0, this.dense, 0, 0);
    pen.clearRect(0, 0, this.wide, this.high);
    this.drawSeconds(pen);
    for (const side of [0, 1]) this.drawScore(pen, side);
    this.drawControl(pen);
    this.drawKills(pen);
  }

  get chart() {
    return { top: KILL_ROWS + 5, bottom: this.high - LABELS_HIGH - CONTROL_HIGH - 3 };
  }

  drawSeconds(pen) {
    const every = this.wide / this.battle.lengthS > 9 ? 5 : this.wide / this.battle.lengthS > 3.5 ? 10 : 20;
    pen.font = "10px system-ui, sans-serif";
    pen.textAlign = "center";
    for (let s = 0; s <= this.battle.lengthS; s += every) {
      pen.fillStyle = this.colours.line;
      pen.fillRect(Math.round(this.xOf(s)), KILL_ROWS, 1, this.high - LABELS_HIGH - KILL_ROWS);
      pen.fillStyle = this.colours.dim;
      pen.fillText(`${s}`, this.xOf(s), this.high - 3);
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
    const { battle } = this, top = this.high - LABELS_HIGH - CONTROL_HIGH;
    for (let m = 1; m < battle.moments; m++) {
      const holder = holderAt(battle, m), x = this.xOf((m - 1) * battle.decisionS), wide = this.xOf(m * battle.decisionS) - x + 0.3;
      pen.fillStyle = holder < 0 ? this.colours.line : holder === 2 ? "#d9b83c" : this.colours.teams[holder];
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
