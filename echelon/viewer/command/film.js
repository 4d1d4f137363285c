// The last rollout of a training run, played at the pace at which rollouts come.

const SLOWEST = 0.25, FASTEST = 4, END_MS = 1500;

class Film {
  constructor(battle, field, tell) {
    Object.assign(this, { battle, field, tell, moments: [], next: null, due: 0, every: 0, map: null, grounds: {} });
  }

  /** Take in a rollout; one that is not shown yet is replaced. */
  take(rollout) {
    this.next = rollout;
  }

  /** Show what is due at a time, ms; whether anything was. */
  play(time) {
    let isNew = false;
    while (time >= this.due && (this.moments.length || this.next)) {
      if (!this.moments.length) this.begin(time);
      const moment = this.moments.shift();
      this.show(moment, time);
      this.due = Math.max(this.due, time - this.every) + (moment.won_by ? END_MS : this.every);
      isNew = true;
    }
    return isNew;
  }

  /** Begin with the rollout that came last. */
  begin(time) {
    const { moments, seconds, decision_s: decision, iteration, agent_steps: steps, blue, red } = this.next;
    const speed = Math.min(Math.max((moments.length * decision) / seconds, SLOWEST), FASTEST);
    Object.assign(this.battle, { about: { period_s: decision }, speed });
    Object.assign(this, { moments, grounds: this.next.grounds, next: null, every: (1000 * decision) / speed, map: null });
    this.due = Math.max(this.due, time - this.every);
    this.tell(true, `iteration ${iteration} · ${steps.toLocaleString("en")} agent-steps · blue: ${blue} · red: ${red}`);
  }

  show({ map, report, won_by: winner }, time) {
    const { battle } = this;
    battle.winner = winner ?? null;
    if (winner) return;
    const passed_s = report.time_s - (battle.report?.time_s ?? 0);
    // Do not interpolate positions between two battles, or over decisions that were not received.
    if (passed_s < 0 || passed_s > 2 * battle.about.period_s) Object.assign(battle, { places: new Map(), headings: new Map() });
    if (map !== this.map) this.field.setGround(this.grounds[map]);
    this.map = map;
    battle.take(report, time);
  }
}
