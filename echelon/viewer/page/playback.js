// The clock of the battle: playing, pausing, stepping.

const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];

class Playback {
  constructor() {
    this.t = 0;
    this.playing = false;
    this.speed = 1;
  }

  open(battle) {
    this.battle = battle;
    this.seek(0);
    this.playing = false;
  }

  seek(t) {
    this.t = clamp(t, 0, this.battle.lengthS);
  }

  /** Let real seconds pass; stops at the end. */
  advance(seconds) {
    this.seek(this.t + seconds * this.speed);
    if (this.t >= this.battle.lengthS) this.playing = false;
  }

  toggle() {
    if (!this.playing && this.t >= this.battle.lengthS) this.seek(0);
    this.playing = !this.playing;
  }

  /** Go to the next or previous whole multiple of a step. */
  step(by, direction) {
    this.playing = false;
    const here = this.t / by, near = Math.round(here);
    const whole = Math.abs(here - near) < 1e-6 ? near + direction : direction > 0 ? Math.ceil(here) : Math.floor(here);
    this.seek(whole * by);
  }

  /** Move the time forward or back by some seconds, by any fraction. */
  leap(seconds) {
    this.playing = false;
    this.seek(this.t + seconds);
  }

  /** Play faster or slower. */
  shift(direction) {
    const next = SPEEDS.indexOf(this.speed) + direction;
    this.speed = SPEEDS[clamp(next, 0, SPEEDS.length - 1)];
  }
}

/** Seconds as a clock, with tenths. */
function clockText(t) {
  const tenths = Math.floor(t * 10 + 1e-6), minutes = Math.floor(tenths / 600);
  return `${minutes}:${String(Math.floor(tenths / 10) % 60).padStart(2, "0")}.${tenths % 10}`;
}
