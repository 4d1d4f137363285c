// Several battles: a summary of all, and two side by side from above on one clock.

/** Lines of the comparison: what it is called, its value in a battle. */
const COMPARED = [
  ["winner", (b) => b.about.outcome.winner], ["ended by", (b) => b.about.outcome.reason.replaceAll("_", " ")],
  ["map", (b) => mapText(b.about) || "–"], ["length, s", (b) => b.lengthS.toFixed(1)], ["score", (b) => b.about.outcome.score.map((s) => s.toFixed(1)).join(" : ")],
  ...["damage", "kills", "intercepts", "shutdowns", "knockdowns"].map((name) => [name, (b) => (b.about.outcome.stats[name] ?? []).map((v) => v.toFixed(0)).join(" : ") || "–"]),
  ["first kill", (b) => (b.deaths.length ? `${TEAMS[1 - b.mechs[b.deaths[0].victim].side]}, ${clockText(b.tickEnd(b.deaths[0].tick))}` : "none")],
  ["ahead in hit points", (b) => leadText(b, "hit points")], ["ahead in score", (b) => leadText(b, "score")],
];

function leadText(battle, what) {
  const lead = leadsOf(battle).find((one) => one.what === what);
  return lead ? `${TEAMS[lead.side]} from ${clockText(lead.t)}` : "neither team";
}

/** The team that leads a measure at half time: 0 blue, 1 red, -1 neither. */
function halfTimeLead(battle, value, tie) {
  const m = Math.floor(battle.decisions / 2), lead = value(battle, 0, m) - value(battle, 1, m);
  return Math.abs(lead) <= tie ? -1 : lead > 0 ? 0 : 1;
}

const scoreAt = (battle, side, m) => battle.score(side, m);
/** Whether a team lost that led at half time in a measure. */
const lostLead = (value, tie) => (battle) => {
  const lead = halfTimeLead(battle, value, tie), { winner } = battle.about.outcome;
  return lead >= 0 && winner === TEAMS[1 - lead];
};

/** Conditions by which battles are shown. */
const CONDITIONS_OF_BATTLES = [
  ["all", () => true], ...[...TEAMS, "draw"].map((winner) => [winner === "draw" ? "drawn" : `${winner} won`, (b) => b.about.outcome.winner === winner]),
  ["led in hit points at half time and lost", lostLead(hpShare, 0.005)], ["led in score at half time and lost", lostLead(scoreAt, 0.05)],
  ["by elimination", (b) => b.about.outcome.reason === "elimination"], ["to the clock", (b) => b.about.outcome.reason === "time_up"],
];
/** Columns of the table of battles, and what each sorts by. */
const BATTLE_COLUMNS = [
  ["#", (b, i) => i], ["battle", (b) => headline(b.about, b.lengthS)], ["length", (b) => b.lengthS], ["score", (b) => b.about.outcome.score[0] - b.about.outcome.score[1]],
  ["half time", (b) => { const m = Math.floor(b.decisions / 2); return hpShare(b, 0, m) - hpShare(b, 1, m); }], ["seed", (b) => b.about.seed], ["map", (b) => mapText(b.about)],
];

/** A table of every battle, pairs of a seed together until a column sorts it; buttons show those of a condition. */
class Summary {
  constructor(root, on) {
    Object.assign(this, { root, on, order: { column: 0, down: false }, condition: 0 });
  }

  show(replay, battleOf, current) {
    const pairs = pairsOf(replay.battles).map(({ battles }) => battles);
    this.rows = pairs.flatMap((battles) => battles.map((i, k) => ({ i, battle: battleOf(i), row: this.makeRow(replay, battleOf(i), i, k ? "" : `${replay.battles[i].about.seed}`, battles.length, current) })));
    const heads = BATTLE_COLUMNS.map(([name], column) => this.makeHead(name, column)), body = make("tbody", "");
    this.filters = CONDITIONS_OF_BATTLES.map(([name, holds], k) => {
      const button = make("button", "filter", name, make("span", "count", `${this.rows.filter(({ battle }) => holds(battle)).length}`));
      button.type = "button";
      button.addEventListener("click", () => this.arrange({ condition: k }));
      return button;
    });
    Object.assign(this, { heads, body });
    const filters = Object.assign(make("div", "", ...this.filters), { role: "group", ariaLabel: "which battles" });
    this.root.replaceChildren(filters, make("table", "", make("thead", "", make("tr", "", ...heads, make("th", ""))), body));
    this.arrange({});
  }

  makeHead(name, column) {
    const button = make("button", "", name), head = make("th", "", button);
    button.type = "button";
    button.addEventListener("click", () => this.arrange({ order: { column, down: this.order.column === column ? !this.order.down : column > 1 } }));
    return head;
  }

  /** Show the battles of a condition in an order; those of a seed stay together where nothing sorts them. */
  arrange(wish) {
    Object.assign(this, wish);
    const { column, down } = this.order, by = BATTLE_COLUMNS[column][1], [, holds] = CONDITIONS_OF_BATTLES[this.condition];
    const compare = (a, b) => { const [x, y] = [by(a.battle, a.i), by(b.battle, b.i)]; return x < y ? -1 : x > y ? 1 : 0; };
    const shown = this.rows.filter(({ battle }) => holds(battle)), isSorted = column > 0 || down;
    if (isSorted) shown.sort((a, b) => (down ? compare(b, a) : compare(a, b)) || a.i - b.i);
    this.body.replaceChildren(...shown.map(({ row }) => row));
    this.filters.forEach((button, k) => button.setAttribute("aria-pressed", k === this.condition));
    this.heads.forEach((head, k) => head.setAttribute("aria-sort", k !== column ? "none" : down ? "descending" : "ascending"));
  }

  makeRow(replay, battle, i, seed, pair, current) {
    const { about } = battle, open = make("button", "", headline(about, battle.lengthS)), beside = make("button", "", "side by side"), half = Math.floor(battle.decisions / 2);
    for (const [button, act] of [[open, () => this.on.open(i)], [beside, () => this.on.compare(i)]]) {
      button.type = "button";
      button.addEventListener("click", act);
    }
    const file = replay.battles[i].beside === undefined ? "" : `, of ${fileOf(replay, replay.battles[i]).name}`;
    open.title = about.map?.position === undefined ? `from seed ${about.map?.seed ?? "?"}${file}` : `starts from position ${about.map.position}${file}`;
    beside.disabled = i === current;
    beside.title = i === current ? "This battle is open" : "Show next to the open battle, with a shared clock";
    const pairText = ([a, b]) => [make("b", "blue", a), " : ", make("b", "red", b)];
    const row = make("tr", i === current ? "chosen" : "", make("td", "", `${i + 1}`), make("td", "", open, ...(file ? [make("small", "", file.slice(2))] : [])), make("td", "", `${battle.lengthS.toFixed(0)} s`),
      make("td", "", ...pairText(about.outcome.score.map((s) => s.toFixed(1)))),
      make("td", "", ...pairText([0, 1].map((side) => `${(100 * hpShare(battle, side, half)).toFixed(0)} %`)), ", ", ...pairText([0, 1].map((side) => battle.score(side, half).toFixed(1)))),
      make("td", "", seed && pair > 1 ? `${seed}, ${pair} battles` : seed), make("td", "", mapText(about).replace(/^map /, "")), make("td", "", beside));
    row.dataset.battle = i;
    return row;
  }
}

/** Two battles beside each other, seen from above, with what differs. */
class Compare {
  constructor(root) {
    this.root = root;
    this.sides = [...root.querySelectorAll("figure")].map((figure) => (
      { scene: new PlanScene(figure.querySelector("canvas")), words: figure.querySelector("figcaption") }));
    this.table = root.querySelector("tbody");
  }

  open(one, other) {
    [one, other].forEach((battle, i) => {
      Object.assign(this.sides[i], { battle, camera: new Camera(battle.size) });
      this.sides[i].scene.open(battle);
    });
    this.table.replaceChildren(...COMPARED.map(([label, value]) => {
      const [a, b] = [value(one), value(other)];
      return make("tr", a === b ? "same" : "differs", make("th", "", label), make("td", "", a), make("td", "", b));
    }));
  }

  draw(view) {
    for (const { scene, camera, battle, words } of this.sides) {
      const t = Math.min(view.t, battle.lengthS), m = battle.momentAt(t), alive = [0, 1].map((side) => battle.mechs.filter((mech) => mech.side === side && battle.isAlive(mech.n, t)).length);
      camera.aspect = scene.resize();
      camera.fit(true);
      camera.jump();
      scene.draw({ ...view, t, camera, selected: -1, isShown: () => true });
      words.textContent = `${headline(battle.about, battle.lengthS)} · now ${battle.score(0, m).toFixed(1)} : ${battle.score(1, m).toFixed(1)}, ${alive.join(" against ")} mechs`;
    }
  }
}
