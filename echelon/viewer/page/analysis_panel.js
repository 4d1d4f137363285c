// The panel of questions that take counting: a section each, worked out when it is first opened.

/** How many spans of time are told in which most was decided. */
const SWINGS = 3;
const INTERVENTION_WORDS = { removed: "been removed", repaired: "been repaired", follow_order: "followed its order" };

/** What happened between two times, as parts of text and mechs: deaths, lost legs, shutdowns, who took the zone. */
function happenedParts(battle, from, to) {
  const told = tellBattle(battle).filter(({ t, kind }) => t > from && t <= to + 1e-6 && ["kill", "legs", "shutdown", "zone"].includes(kind));
  const first = ["kill", "legs", "zone", "shutdown"].flatMap((kind) => told.filter((event) => event.kind === kind)).slice(0, 3);
  return { event: first[0], parts: first.length ? first.flatMap(({ parts }, i) => [i ? "; " : "", ...parts]) : ["no mech died"] };
}

/** The spans in which blue's share of wins moved most: `{from, to, change}`. */
function swingsOf({ s, blue }) {
  const spans = s.slice(1).map((to, k) => ({ from: s[k], to, change: blue[k + 1] - blue[k] }));
  return spans.sort((a, b) => Math.abs(b.change) - Math.abs(a.change)).slice(0, SWINGS).filter(({ change }) => change);
}

const points = (share) => `${share > 0 ? "+" : ""}${fixed(100 * share, 0).replace("-", "−")}`;

/** What blue's share would have changed by, had each mech done otherwise: a row a mech, a column an intervention. */
function mechsTable(battle, { at_s: at, mechs }) {
  const names = Object.keys(mechs), heads = names.map((name) => [INTERVENTION_WORDS[name] ?? name.replaceAll("_", " ")]);
  const rows = battle.mechs.map(({ n, team, tag }) => [make("b", team, tag), ...names.map((name) => {
    const { difference, low, high } = mechs[name], sure = low[n] > 0 || high[n] < 0;
    return Object.assign(make("span", sure ? "strong" : "", points(difference[n])), { title: `${points(low[n])} to ${points(high[n])}, 95 %` });
  })]);
  return [make("h3", "", `Points for blue if, from ${clockText(at)} on, a mech had …`), plainTable([["mech"], ...heads], rows)];
}

/** What each death cost: blue's share had the mech been whole just before it, beside the share as it was. */
function deathsList(battle, deaths, on) {
  const rows = deaths.map(({ mech, s, difference, low, high }) => visitRow(battle, { t: s, kind: "kill", who: [mech] }, [{ n: mech }, ` died; if it had survived: ${points(difference)} points for blue (${points(low)} to ${points(high)})`], on.visit));
  return [make("h3", "", "If a mech had survived"), make("ol", "plain", ...rows), make("p", "summary", "The mech is repaired just before its death, and the battle continues with new random numbers.")];
}

function studyDecided(battle, on) {
  const { odds } = battle.about, leads = leadsOf(battle).filter(({ t }) => t > 0).map(({ what, side, t }) => make("p", "lead", make("b", TEAMS[side], TEAMS[side]), ` ahead in ${what} from ${clockText(t)} on`));
  const command = `echelon-arena whatif FILE --battle ${on.number()} --at ${Math.floor(battle.lengthS / 3)} --deaths --page FILE.html`;
  if (!odds) return [make("p", "", "Win rates and the value of each mech have not been computed for this battle. Compute them with"), make("p", "", make("code", "", command)), ...leads];
  const rows = swingsOf(odds).map(({ from, to, change }) => {
    const { event, parts } = happenedParts(battle, from, to);
    return visitRow(battle, { t: event?.t ?? to, kind: "swing", who: event?.who ?? [] }, [`${points(change)} points for blue by ${clockText(to)}: `, ...parts], on.visit);
  });
  const known = odds.deaths?.length ? deathsList(battle, odds.deaths, on) : [];
  const table = odds.mechs && Object.keys(odds.mechs).length ? mechsTable(battle, odds) : [];
  const lack = known.length && table.length ? [] : [make("p", "summary", `Compute the value of each mech with ${command}`)];
  return [make("h3", "", `Largest changes of blue's win rate, of ${odds.branches} battles`), make("ol", "plain", ...rows), ...leads, ...known, ...table, ...lack];
}

/** Heat of a side at each moment, a share of what its living mechs bear: the mean, and of the hottest. */
function heatCourses(battle, side) {
  const own = (m) => battle.mechs.filter((mech) => mech.side === side && battle.has(mech.n, m, FACT.ALIVE)).map(({ n }) => battle.condition(n, m).heat);
  const each = Array.from({ length: battle.moments }, (_, m) => own(m)), of = (tell) => Float32Array.from(each, (heats) => (heats.length ? tell(heats) : NaN));
  return [of((heats) => heats.reduce((a, b) => a + b, 0) / heats.length), of((heats) => Math.max(...heats))];
}

function studyHeat(battle, on) {
  const courses = TEAMS.map((_, side) => heatCourses(battle, side)), tell = (v) => `${(100 * v).toFixed(0)} %`;
  const charts = ["Heat, mean of living mechs", "Heat of the hottest mech, which shuts down at 100 %"].map((title, i) => new Chart(battle, { title, curves: teamCurves(courses.map((own) => own[i])), high: i ? 1.5 : 1, tell }, on.seek));
  on.charts(charts);
  const rows = battle.mechs.map(({ n, team, tag }) => {
    const heats = Array.from({ length: battle.moments }, (_, m) => m).filter((m) => battle.has(n, m, FACT.ALIVE)).map((m) => battle.condition(n, m).heat);
    const vents = Array.from({ length: battle.moments }, (_, m) => Number(battle.has(n, m, FACT.VENTING))).reduce((a, b) => a + b, 0) * battle.decisionS;
    return [
      make("b", team, tag), tell(heats.reduce((a, b) => a + b, 0) / (heats.length || 1)), tell(Math.max(...heats, 0)),
      `${(heats.filter((heat) => heat > 0.8).length * battle.decisionS).toFixed(0)} s`, `${vents.toFixed(0)} s`, `${battle.conditions.filter((c) => c.mech === n && c.condition === CONDITION.SHUT_DOWN).length || "·"}`,
    ];
  });
  return [...charts.map(({ element }) => element), plainTable([["mech"], ["mean"], ["most"], ["> 80 %"], ["vented"], ["shut", "shutdowns"]], rows)];
}

function studyNumbers(battle, on) {
  const buttons = Object.entries(TABLES_TO_KEEP).map(([name, { title }]) => {
    const button = make("button", "", name);
    Object.assign(button, { type: "button", title });
    button.addEventListener("click", () => on.keep(name));
    return button;
  });
  return [make("p", "row", ...buttons), make("p", "summary", "One CSV file for each lane, list and table of this battle. Times in s, positions in vox.")];
}

const STUDIES = [
  ["decided", "When was the battle decided, and by which mechs", studyDecided], ["screens", "Who screened the heavies", studyScreens],
  ["flanks", "Flanks: mechs that left, enemies they met", studyFlanks], ["messages", "Messages, and what happened", studyMessages],
  ["shots", "Which weapon missed, and why", studyShots], ["heat", "Heat of both teams", studyHeat],
  ["seen", "How much of the map each team saw", studySeen], ["numbers", "Download numbers (CSV)", studyNumbers],
];

class AnalysisPanel {
  /** `on`: `visit(event)`, `visitShot(event, flight)`, `seek(t)`, `flip(option)`, `fog(side)`, `keep(table)`, `number()`. */
  constructor(root, on) {
    Object.assign(this, { root, on, charts: new Map() });
  }

  open(battle) {
    this.battle = battle;
    this.charts.clear();
    this.drawn = undefined;
    this.root.replaceChildren(...STUDIES.map(([name, title, fill]) => this.makeSection(name, title, fill)));
  }

  makeSection(name, title, fill) {
    const body = make("div", "study"), section = make("details", "", make("summary", "", title), body);
    section.dataset.study = name;
    // One question at a time, and what can be taken along always in reach.
    if (name !== "numbers") section.name = "study";
    section.addEventListener("toggle", () => {
      if (section.open && !body.childNodes.length) body.replaceChildren(...fill(this.battle, { ...this.on, charts: (charts) => { this.charts.set(name, charts); this.drawn = undefined; this.on.refresh(); } }));
      this.drawn = undefined;
      this.on.refresh();
    });
    section.open = name === "numbers";
    return section;
  }

  /** Draw the charts of the section that is open, if they would look otherwise. */
  show(t, key) {
    const open = this.root.querySelector("details[name][open]"), drawn = [t, key, open?.dataset.study, this.root.clientWidth].join();
    if (!open || drawn === this.drawn) return;
    this.drawn = drawn;
    for (const chart of this.charts.get(open.dataset.study) ?? []) chart.draw(t);
  }
}
