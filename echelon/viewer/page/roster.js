// The teams: who is there, how they fare, and the score.

const FLAGS = [
  [FACT.FALLEN, "DOWN", "fallen", "bad"], [FACT.SHUT_DOWN, "OFF", "shut down", "bad"], [FACT.LEGGED, "LEG", "legs lost", "bad"],
  [FACT.SUPPRESSED, "SUP", "suppressed", ""], [FACT.VENTING, "VENT", "venting heat", ""], [FACT.ECM, "ECM", "jamming", "good"],
  [FACT.ECCM, "ECCM", "clearing jamming", "good"], [FACT.IN_ZONE, "⬡", "in the zone", "good"],
];

/** An element with a class, and children or text. */
function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

/** Pixels of the screen for each of an element, larger text included. */
function densityOf(element) {
  const zoom = element.clientWidth ? element.getBoundingClientRect().width / element.clientWidth : 1;
  return (window.devicePixelRatio || 1) * zoom;
}

class Roster {
  constructor(root, onSelect) {
    this.root = root;
    this.onSelect = onSelect;
  }

  open(battle) {
    this.battle = battle;
    this.shown = new Map();
    this.rows = battle.mechs.map((mech) => this.makeRow(mech));
    this.counts = TEAMS.map(() => make("span", "count"));
    this.root.replaceChildren(...TEAMS.map((team, side) => this.makeTeam(team, side)));
  }

  makeTeam(team, side) {
    const head = make("div", "team-head", make("h2", "", team), make("span", "commander", this.battle.about[team]), this.counts[side]);
    head.title = `${team}: commanded by ${this.battle.about[team]}`;
    const list = make("div", "team-list", ...this.battle.mechs.filter((m) => m.side === side).map((m) => this.rows[m.n].element));
    const section = make("section", `team ${team}`, head, list);
    section.setAttribute("aria-label", `${team} team`);
    return section;
  }

  makeRow(mech) {
    const hp = make("i", "fill hp"), heat = make("i", "fill heat"), flags = make("span", "flags");
    const bars = make("span", "bars", make("span", "bar", hp), make("span", "bar thin", heat));
    const element = make("button", "mech", make("span", "tag", mech.tag), make("span", "hull", mech.hull), bars, flags);
    element.type = "button";
    element.dataset.mech = mech.n;
    element.addEventListener("click", () => this.onSelect(mech.n));
    return { element, hp, heat, flags };
  }

  /** Show the condition of all mechs at a moment; update only changed elements. */
  show(m, t, selected) {
    const living = [0, 0];
    for (const mech of this.battle.mechs) {
      const alive = this.battle.isAlive(mech.n, t);
      living[mech.side] += alive;
      this.showRow(mech, this.battle.condition(mech.n, m), alive, mech.n === selected);
    }
    TEAMS.forEach((team, side) => {
      const [first, end] = this.battle.common.teams[team];
      this.counts[side].textContent = `${living[side]}/${end - first}`;
    });
  }

  showRow(mech, condition, alive, selected) {
    const { hp, heat, facts, paint } = condition, row = this.rows[mech.n];
    const key = [alive, selected, hp.toFixed(3), heat.toFixed(2), facts, paint].join();
    if (this.shown.get(mech.n) === key) return;
    this.shown.set(mech.n, key);
    row.hp.style.width = `${clamp(alive ? hp : 0, 0, 1) * 100}%`;
    row.heat.style.width = `${(clamp(alive ? heat : 0, 0, 1.5) / 1.5) * 100}%`;
    row.heat.classList.toggle("hot", heat > 0.8);
    row.element.classList.toggle("dead", !alive);
    row.element.setAttribute("aria-pressed", selected);
    const flags = alive ? flagsOf(facts, paint) : [];
    row.flags.replaceChildren(...flags.slice(0, 3).map(([, text, title, tone]) => chip(text, title, tone)));
    const state = alive ? `${Math.round(hp * 100)} % hit points, ${Math.round(heat * 100)} % heat` : "dead";
    row.element.setAttribute("aria-label", [mech.name, state, ...flags.map((flag) => flag[2])].join(", "));
    row.element.title = `${mech.name}: ${state}`;
  }
}

function flagsOf(facts, paint) {
  const flags = FLAGS.filter(([bit]) => facts & bit);
  return paint ? [[0, "PAINT", "painted", "bad"], ...flags] : flags;
}

function chip(text, title, tone) {
  const element = make("span", `chip ${tone}`, text);
  element.title = title;
  return element;
}

/** The score of both teams, and who controls the zone. */
class Scoreboard {
  constructor(root) {
    this.parts = Object.fromEntries([...root.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
    this.scores = root.querySelectorAll(".score");
  }

  show(battle, m, t) {
    const win = battle.common.zone_score_to_win_s;
    for (const score of this.scores) score.title = battle.about.objective;
    TEAMS.forEach((team, side) => {
      const score = battle.score(side, m);
      this.parts[`${team}-score`].textContent = score.toFixed(1);
      this.parts[`${team}-win`].textContent = `/${win}`;
      this.parts[`${team}-progress`].style.width = `${clamp(score / win, 0, 1) * 100}%`;
    });
    const texts = { 0: "blue holds", 1: "red holds", 2: "contested", "-1": "zone empty" }, holder = holderAt(battle, m);
    this.parts.control.textContent = t >= battle.lengthS ? verdict(battle) : texts[holder];
    this.parts.control.dataset.side = t >= battle.lengthS ? battle.about.outcome.winner : TEAMS[holder] ?? "none";
    this.parts.clock.textContent = clockText(t);
  }
}
