// The course of the battle in lanes below the scores: hit points, mechs alive, damage a second, control of the zone, reward,
// what policies expect, and how often blue wins from a moment on.

const LANE_GAP = 3, DAMAGE_WINDOW_S = 2;

/** For every moment and both sides: `hp` and `zone` 0..1, `alive` mechs, `damage` points a second over the last seconds, `reward` a mech
 *  since the battle began, `value` that the policies estimate, NaN where none is known. */
function courseOf(battle) {
  const blank = () => [new Float32Array(battle.moments), new Float32Array(battle.moments)];
  const course = { hp: blank(), alive: blank(), damage: blank(), zone: blank(), reward: blank(), value: blank() };
  const dealt = blank(), repeat = battle.common.decision_repeat;
  for (const { tick, shooter, target, damage } of battle.harms) {
    const { side } = battle.mechs[shooter], m = Math.floor(tick / repeat) + 1;
    if (side !== battle.mechs[target].side && m < battle.moments) dealt[side][m] += damage / UNIT.points;
  }
  const wide = Math.max(Math.round(DAMAGE_WINDOW_S / battle.decisionS), 1);
  for (const side of [0, 1]) {
    let recent = 0;
    for (let m = 0; m < battle.moments; m++) {
      recent += dealt[side][m] - (m >= wide ? dealt[side][m - wide] : 0);
      course.hp[side][m] = hpShare(battle, side, m);
      course.damage[side][m] = Math.max(recent, 0) / (Math.min(wide, Math.max(m, 1)) * battle.decisionS);
      course.zone[side][m] = battle.control(side, m);
      course.reward[side][m] = (m ? course.reward[side][m - 1] : 0) + battle.reward(side, m);
      course.value[side][m] = battle.value(side, m);
      course.alive[side][m] = battle.mechs.filter((mech) => mech.side === side && battle.has(mech.n, m, FACT.ALIVE)).length;
    }
  }
  return course;
}

const LANE_NAMES = [["hp", "hit points"], ["alive", "mechs"], ["damage", "damage/s"], ["zone", "zone"], ["reward", "reward so far, a mech"]];

/** The sides whose policy tells values. */
function sidesWithValues(course) {
  return [0, 1].filter((side) => course.value[side].some((value) => !Number.isNaN(value)));
}

/** The lanes of a battle, `[name, label]`; what a policy expects, and who wins from a moment on, where it is known. */
function lanesOf(battle, course) {
  const sides = sidesWithValues(course), whose = sides.length === 1 ? ` of ${TEAMS[sides[0]]}, ${TEAMS[1 - sides[0]]} has none` : "";
  const odds = battle.about.odds;
  return [
    ...LANE_NAMES, ...(sides.length ? [["value", `value${whose}`]] : []),
    ...(odds ? [["odds", `blue wins, of ${odds.branches} battles from here`]] : []),
  ];
}

/** Draw the lanes of a timeline between two heights. */
function drawLanes(pen, timeline, top, bottom) {
  const { course, battle, colours, lanes } = timeline, high = (bottom - top) / lanes.length;
  lanes.forEach(([name, label], i) => {
    const y = top + i * high, floor = y + high - LANE_GAP, [blue, red] = course[name] ?? [[], []], most = Math.max(...blue, ...red, 1e-6);
    pen.fillStyle = colours.line;
    const signed = name === "reward" || name === "value";
    if (!signed) pen.fillRect(EDGE, floor, timeline.wide - 2 * EDGE, 1);
    const draw = name === "odds" ? drawOdds : name === "zone" ? drawShares : signed ? drawSigned : drawCourse;
    draw(pen, timeline, course[name], y + 1, floor, name === "zone" ? 1 : most);
    pen.font = timeline.font;
    pen.textAlign = "left";
    const text = name === "damage" ? `${label}, up to ${most.toFixed(0)}` : label, wide = pen.measureText(text).width;
    pen.fillStyle = colours.panel;
    pen.globalAlpha = 0.5;
    pen.fillRect(EDGE, y, wide + 6, timeline.textHigh + 2);
    pen.globalAlpha = 1;
    pen.fillStyle = colours.dim;
    pen.fillText(text, EDGE + 3, y + timeline.textHigh);
  });
  for (const { what, side, t } of leadsOf(battle)) if (what === "hit points" && t > 0) drawTurn(pen, timeline, top, side, t);
}

function drawCourse(pen, timeline, sides, top, floor, most) {
  for (const side of [0, 1]) {
    pen.beginPath();
    for (let m = 0; m < sides[side].length; m++) {
      pen.lineTo(timeline.xOf(m * timeline.battle.decisionS), floor - (sides[side][m] / most) * (floor - top));
    }
    pen.strokeStyle = timeline.colours.teams[side];
    pen.lineWidth = 1.5;
    if (side) pen.setLineDash([5, 2]);
    pen.stroke();
    pen.setLineDash([]);
  }
}

/** A course that may fall below zero, which is a line; nothing is drawn where it is not known. */
function drawSigned(pen, timeline, sides, top, floor) {
  const known = [...sides[0], ...sides[1]].filter((value) => !Number.isNaN(value)), { battle, colours } = timeline;
  const low = Math.min(0, ...known), high = Math.max(0, ...known), span = Math.max(high - low, 1e-6);
  const yOf = (value) => floor - ((value - low) / span) * (floor - top - 1);
  pen.fillStyle = colours.line;
  pen.fillRect(EDGE, yOf(0), timeline.wide - 2 * EDGE, 1);
  for (const side of [0, 1]) {
    pen.beginPath();
    sides[side].forEach((value, m) => Number.isNaN(value) || pen.lineTo(timeline.xOf(m * battle.decisionS), yOf(value)));
    pen.strokeStyle = colours.teams[side];
    pen.lineWidth = 1.5;
    if (side) pen.setLineDash([5, 2]);
    pen.stroke();
    pen.setLineDash([]);
  }
}

/** What each team earned of the zone: blue above the middle, red below. */
function drawShares(pen, timeline, sides, top, floor) {
  const middle = (top + floor) / 2, { battle, colours } = timeline;
  for (let m = 1; m < battle.moments; m++) {
    const x = timeline.xOf((m - 1) * battle.decisionS), wide = timeline.xOf(m * battle.decisionS) - x + 0.3;
    for (const side of [0, 1]) {
      const tall = sides[side][m] * (middle - top);
      pen.fillStyle = colours.teams[side];
      pen.fillRect(x, side ? middle : middle - tall, wide, tall);
    }
  }
}

/** Blue's win rate from each moment on, between a floor of never and a top of always: the interval, and a line at one half. */
function drawOdds(pen, timeline, _, top, floor) {
  const { s, blue, low, high } = timeline.battle.about.odds, { colours } = timeline;
  const through = (shares, order) => order.forEach((k) => pen.lineTo(timeline.xOf(s[k]), floor - shares[k] * (floor - top)));
  const forth = [...s.keys()], back = [...forth].reverse();
  pen.fillStyle = colours.line;
  pen.fillRect(EDGE, (top + floor) / 2, timeline.wide - 2 * EDGE, 1);
  pen.beginPath();
  through(high, forth);
  through(low, back);
  pen.fillStyle = colours.teams[0];
  pen.globalAlpha = 0.25;
  pen.fill();
  pen.globalAlpha = 1;
  pen.beginPath();
  through(blue, forth);
  pen.strokeStyle = colours.teams[0];
  pen.lineWidth = 1.5;
  pen.stroke();
}

/** A mark where the side that is ahead in the end went ahead. */
function drawTurn(pen, timeline, top, side, t) {
  const x = timeline.xOf(t);
  pen.fillStyle = timeline.colours.teams[side];
  pen.beginPath();
  for (const [dx, dy] of [[-4, 0], [4, 0], [0, 6]]) pen.lineTo(x + dx, top + dy);
  pen.fill();
  pen.fillRect(x - 0.5, top, 1, 22);
}

/** What the lanes say at a time, in words. */
function readoutOf(battle, course, t) {
  const m = battle.momentAt(t), pair = (name, digits, factor = 1) => [0, 1].map((side) => fixed(course[name][side][m] * factor, digits)).join(" : ");
  return `${clockText(t)} · score ${[0, 1].map((side) => battle.score(side, m).toFixed(1)).join(" : ")} · hit points ${pair("hp", 0, 100)} %`
    + ` · mechs ${pair("alive", 0)} · damage ${pair("damage", 0)} /s · zone ${pair("zone", 0, 100)} %`
    + courseOfPolicies(battle, course, m) + oddsAt(battle.about.odds, t);
}

/** How often blue wins from the last counted moment on, in words; empty where nothing was counted. */
function oddsAt(odds, t) {
  if (!odds) return "";
  const k = odds.s.findLastIndex((s) => s <= t + 1e-6), share = (shares) => (100 * shares[k]).toFixed(0);
  return ` · blue wins ${share(odds.blue)} % (${share(odds.low)} to ${share(odds.high)} %)`;
}

/** Rewards and values at a moment, in words; that of the last decision, and since the battle began. */
function courseOfPolicies(battle, course, m) {
  const both = (tell) => [0, 1].map(tell).join(" : ");
  const value = (side) => (Number.isNaN(course.value[side][m]) ? "none" : fixed(course.value[side][m], 2));
  const values = sidesWithValues(course).length ? ` · value ${both(value)}` : "";
  return ` · reward ${both((side) => fixed(battle.reward(side, m), 3))}, so far ${both((side) => fixed(course.reward[side][m], 2))}${values}`;
}
