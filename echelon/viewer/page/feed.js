// The event log as a list; a click goes to where it happened.

const LEAD_S = 0.6;
const SIGNS = { kill: "✕", fall: "▼", shutdown: "○", legs: "∧", paint: "◎", intercept: "✳", zone: "⬡", end: "■" };

class Feed {
  constructor(list, filters, onJump) {
    Object.assign(this, { list, filters, onJump });
    this.hidden = new Set(["paint"]);
  }

  open(battle) {
    this.battle = battle;
    this.events = tellBattle(battle);
    this.rows = this.events.map((event) => this.makeRow(event));
    this.list.replaceChildren(...this.rows);
    this.filters.replaceChildren(...Object.keys(KINDS).filter((kind) => kind !== "end").map((kind) => this.makeFilter(kind)));
    this.sieve();
    this.last = undefined;
  }

  makeRow(event) {
    const text = make("span", "what", ...event.parts.map((part) => this.word(part)));
    const sign = make("span", "sign", SIGNS[event.kind]);
    sign.setAttribute("aria-hidden", "true");
    const button = make("button", `event ${event.kind} ${TEAMS[event.side] ?? "none"}`, make("time", "", clockText(event.t)), sign, text);
    button.type = "button";
    button.dataset.kind = event.kind;
    button.dataset.t = event.t;
    button.addEventListener("click", () => this.choose(event, button));
    return make("li", "", button);
  }

  /** Go to an event, and mark its row until another is chosen. */
  choose(event, button) {
    this.mark(button);
    this.onJump(event);
  }

  mark(button) {
    this.rows.forEach((row) => row.firstChild.classList.toggle("chosen", row.firstChild === button));
  }

  /** The same for the death of a mech. */
  chooseDeath(victim) {
    const i = this.events.findIndex((event) => event.kind === "kill" && event.who.includes(victim) && this.battle.deathOf(victim) === event.death);
    if (i >= 0) this.choose(this.events[i], this.rows[i].firstChild);
  }

  word(part) {
    return typeof part === "string" ? part : make("b", this.battle.mechs[part.n].team, this.battle.mechs[part.n].name);
  }

  makeFilter(kind) {
    const count = this.events.filter((event) => event.kind === kind).length;
    const button = make("button", "filter", KINDS[kind], make("span", "count", `${count}`));
    button.type = "button";
    button.setAttribute("aria-pressed", !this.hidden.has(kind));
    button.title = "Show or hide; twice for only this";
    button.addEventListener("click", () => {
      if (!this.hidden.delete(kind)) this.hidden.add(kind);
      this.sieve();
    });
    button.addEventListener("dblclick", () => this.only(kind));
    button.dataset.kind = kind;
    return button;
  }

  /** Show one kind alone; where that is so already, all. */
  only(kind) {
    const others = Object.keys(KINDS).filter((other) => other !== kind && other !== "end");
    // The two clicks before have shown and hidden it again.
    this.hidden = new Set(others.every((other) => this.hidden.has(other)) ? [] : others);
    this.sieve();
  }

  sieve() {
    for (const button of this.filters.children) button.setAttribute("aria-pressed", !this.hidden.has(button.dataset.kind));
    this.rows.forEach((row, i) => (row.hidden = this.hidden.has(this.events[i].kind)));
  }

  /** Set off what has not happened yet, and keep the latest in sight. */
  show(t) {
    let past = 0;
    while (past < this.events.length && this.events[past].t <= t + 1e-6) past++;
    if (past === this.last) return;
    this.last = past;
    this.rows.forEach((row, i) => row.classList.toggle("ahead", i >= past));
    let latest = past - 1;
    while (latest >= 0 && this.rows[latest].hidden) latest--;
    this.rows.forEach((row, i) => row.classList.toggle("latest", i === latest));
    this.reveal(this.rows[latest]);
  }

  /** Scroll the list, and nothing else, to a row. */
  reveal(row) {
    const panel = this.list;
    if (!row) panel.scrollTop = 0;
    else panel.scrollTop = row.offsetTop - panel.offsetTop - panel.clientHeight * 0.6;
  }
}
