// What happened to one mech: curves of the whole battle, and the last seconds as a list.

const LOG_S = 5;
/** Curves of a mech: its array, how much is full, its colour, what it is called. */
const CURVES = [
  ["hp", (mech) => mech.hp, "--good", "hp"], ["heat", (mech) => mech.heat_cap, "--hot", "heat"],
  ["stability", (mech, common) => common.stability_cap, "--blue", "stability"],
];
const CURVE_HIGH = 30;

/** Draw the curves of a mech with a line at time `t`. */
function drawHistory(canvas, battle, n, t) {
  const dense = densityOf(canvas), wide = canvas.clientWidth, high = CURVES.length * CURVE_HIGH;
  if (!wide) return;
  Object.assign(canvas, { width: Math.round(wide * dense), height: Math.round(high * dense) });
  const pen = canvas.getContext("2d"), style = getComputedStyle(canvas), colour = (name) => style.getPropertyValue(name).trim();
  const mech = battle.mechs[n], xOf = (time) => (time / (battle.lengthS || 1)) * (wide - 2) + 1;
  pen.setTransform(dense, 0, 0, dense, 0, 0);
  pen.font = "10px system-ui, sans-serif";
  CURVES.forEach(([name, full, tint, label], i) => {
    const floor = (i + 1) * CURVE_HIGH - 3, tall = CURVE_HIGH - 6, most = full(mech, battle.common) * (name === "heat" ? 1.5 : 1);
    pen.fillStyle = colour("--line");
    pen.fillRect(0, floor, wide, 1);
    if (name === "heat") for (let x = 0; x < wide; x += 6) pen.fillRect(x, floor - tall / 1.5, 3, 1);
    pen.beginPath();
    for (let m = 0; m < battle.moments; m++) {
      pen.lineTo(xOf(m * battle.decisionS), floor - clamp(battle.at(name, n, m) / UNIT.points / most, 0, 1) * tall);
    }
    pen.strokeStyle = colour(tint);
    pen.lineWidth = 1.5;
    pen.stroke();
    pen.fillStyle = colour("--well");
    pen.fillRect(0, floor - tall - 2, pen.measureText(label).width + 6, 11);
    pen.fillStyle = colour("--dim");
    pen.fillText(label, 3, floor - tall + 7);
  });
  pen.fillStyle = colour("--text");
  pen.fillRect(xOf(t) - 0.5, 0, 1, high);
}

/** What a mech fired between two times: `{t, weapon, target}`; target -1 for shots that fly. */
function firedBy(battle, n, from, to) {
  const within = (tick) => battle.tickEnd(tick) > from && battle.tickEnd(tick) <= to + 1e-6;
  return [
    ...battle.beams.filter((beam) => beam.shooter === n && within(beam.tick)).map((b) => ({ t: battle.tickEnd(b.tick), weapon: b.weapon })),
    ...battle.flights.filter((shot) => shot.shooter === n && within(shot.launch)).map((s) => ({ t: battle.tickEnd(s.launch), weapon: s.weapon })),
  ];
}

/** Hits on a mech that heated it: `{t, weapon, by}`. */
function heatedBy(battle, n, from, to) {
  const within = (tick) => battle.tickEnd(tick) > from && battle.tickEnd(tick) <= to + 1e-6, heats = (w) => battle.weapon(w).target_heat > 0;
  return [
    ...battle.beams.filter((b) => b.target === n && heats(b.weapon) && within(b.tick)).map((b) => ({ t: battle.tickEnd(b.tick), weapon: b.weapon, by: b.shooter })),
    ...battle.flights.filter((s) => s.met === MET.MECH && s.victim === n && heats(s.weapon) && within(s.end)).map((s) => ({ t: battle.tickEnd(s.end), weapon: s.weapon, by: s.shooter })),
  ];
}

/** Sums by key, most first: `[key, sum, count]`. */
function summed(rows, keyOf, valueOf) {
  const sums = new Map();
  for (const row of rows) {
    const [sum, count] = sums.get(keyOf(row)) ?? [0, 0];
    sums.set(keyOf(row), [sum + valueOf(row), count + 1]);
  }
  return [...sums].map(([key, [sum, count]]) => [key, sum, count]).sort((a, b) => b[1] - a[1]);
}

/** Where the heat of the last seconds came from: `{before, now, cap, fired, received, rest}`, and the two lists by weapon. */
function heatAccount(battle, n, t) {
  const from = Math.max(t - LOG_S, 0), heat = (time) => battle.at("heat", n, battle.momentAt(time)) / UNIT.points;
  const total = (list) => list.reduce((sum, [, points]) => sum + points, 0);
  // Heat is known at moments, so whole decisions are counted, the one of the time among them.
  const start = battle.momentAt(from) * battle.decisionS, end = Math.min(Math.ceil(t / battle.decisionS - 1e-6) * battle.decisionS, battle.lengthS);
  const fired = summed(firedBy(battle, n, start, end), (shot) => battle.weaponName(shot.weapon), (shot) => battle.weapon(shot.weapon).self_heat);
  const received = summed(heatedBy(battle, n, start, end), (hit) => battle.weaponName(hit.weapon), (hit) => battle.weapon(hit.weapon).target_heat);
  const before = heat(start), now = heat(end);
  return { before, now, cap: battle.mechs[n].heat_cap, fired, received, rest: now - before - total(fired) - total(received) };
}

/** That account in words. */
function heatText(battle, n, t) {
  const { before, now, cap, fired, received, rest } = heatAccount(battle, n, t);
  const list = (rows) => rows.filter(([, points]) => points > 0).map(([name, points, count]) => `${name}${count > 1 ? ` ×${count}` : ""} +${points.toFixed(0)}`).join(", ");
  const parts = [list(fired) && `fired ${list(fired)}`, list(received) && `hit by ${list(received)}`, `cooling and ground ${rest < 0 ? "−" : "+"}${Math.abs(rest).toFixed(0)}`];
  return `heat ${before.toFixed(0)} → ${now.toFixed(0)} of ${cap.toFixed(0)} in ${LOG_S} s: ${parts.filter(Boolean).join("; ")}`;
}

/** What was ordered in the decision before a moment, in words. */
function ordersText(battle, n, m) {
  const [ahead, left, jets, turn] = [0, 1, 2, 3].map((i) => Math.round(battle.at("moves", n * 4 + i, m) / 1.27));
  const word = (value, plus, minus) => (Math.abs(value) < 5 ? "" : `${value > 0 ? plus : minus} ${Math.abs(value)} %`);
  const held = battle.common.weapons.filter((_, w) => (battle.at("triggers", n, m) >> w) & 1);
  const switches = Object.keys(SWITCH).filter((name) => battle.at("switches", n, m) & SWITCH[name]).map((name) => SWITCH_WORDS[name]);
  const focus = battle.at("focus", n, m), words = [
    word(ahead, "ahead", "back"), word(left, "left", "right"), word(jets, "jets", ""), word(turn, "turn left", "turn right"),
    held.length ? `fire ${held.join(", ")}` : "", ...switches, focus >= 0 ? `focus ${battle.mechs[focus].name}` : "",
  ];
  const done = [...words, messageText(battle, n, m)].filter(Boolean).join(" · ") || "nothing";
  return [orderText(battle, n, m), `ordered: ${done}`].filter(Boolean).join(" · ");
}

/** What a mech said to its pack in the decision before a moment: its numbers, if any is not zero. */
function messageText(battle, n, m) {
  const wide = battle.arrays.messages.shape[2], numbers = Array.from({ length: wide }, (_, i) => battle.at("messages", n * wide + i, m) / 127);
  return numbers.some((x) => Math.abs(x) > 0.05) ? `said ${numbers.map((x) => fixed(x, 1)).join(" ")}` : "";
}

const SWITCH_WORDS = { VENT: "vent", ECM: "ECM", ECCM: "ECCM", HOSTILE_ONLY: "hostiles only", SORT_BIGGEST: "biggest first", SORT_MOST_DAMAGED: "most damaged first" };

/** What happened to a mech in the seconds before a time, latest first: `{t, text, tone}`; many hits of one weapon are one line. */
function logOf(battle, n, t) {
  const from = t - LOG_S, within = (tick) => battle.tickEnd(tick) > from && battle.tickEnd(tick) <= t + 1e-6, lines = [];
  const told = (rows, timeOf, keyOf, valueOf, write, tone) => {
    for (const [key, sum, count] of summed(rows, keyOf, valueOf)) {
      const last = Math.max(...rows.filter((row) => keyOf(row) === key).map(timeOf));
      lines.push({ t: last, text: write(key, sum, count > 1 ? ` ×${count}` : ""), tone });
    }
  };
  const weapon = (w) => (w < 0 ? "" : ` with ${battle.weaponName(w)}`), name = (other) => battle.mechs[other].name;
  const harms = battle.harms.filter((harm) => within(harm.tick)), points = (harm) => harm.damage / UNIT.points, end = (row) => battle.tickEnd(row.tick);
  const pair = (key) => key.split(" ").map(Number);
  told(harms.filter((h) => h.target === n), end, (h) => `${h.shooter} ${h.weapon}`, points, (key, sum, times) => `hit by ${name(pair(key)[0])}${weapon(pair(key)[1])}${times}: −${sum.toFixed(0)} hp`, "bad");
  told(harms.filter((h) => h.shooter === n), end, (h) => `${h.target} ${h.weapon}`, points, (key, sum, times) => `hit ${name(pair(key)[0])}${weapon(pair(key)[1])}${times}: ${sum.toFixed(0)} hp`, "good");
  told(firedBy(battle, n, from, t), (s) => s.t, (s) => s.weapon, (s) => battle.weapon(s.weapon).self_heat ?? 0, (key, sum, times) => `fired ${battle.weaponName(key)}${times}: heat +${sum.toFixed(0)}`, "");
  told(heatedBy(battle, n, from, t), (h) => h.t, (h) => `${h.by} ${h.weapon}`, (h) => battle.weapon(h.weapon).target_heat, (key, sum, times) => `heated by ${name(pair(key)[0])}${weapon(pair(key)[1])}${times}: heat +${sum.toFixed(0)}`, "bad");
  for (const event of battle.conditions.filter((c) => c.mech === n && within(c.tick))) lines.push({ t: end(event), text: CONDITION_WORDS[event.condition], tone: "mark" });
  for (const death of battle.deaths.filter((d) => d.victim === n && within(d.tick))) lines.push({ t: end(death), text: "died", tone: "mark" });
  return lines.sort((a, b) => b.t - a.t || (b.tone === "mark") - (a.tone === "mark"));
}

const CONDITION_WORDS = ["shut down from heat", "started up again", "was knocked down", "stood up", "lost its legs"];

/** The part of the cockpit that tells what came before. */
class History {
  constructor(parts) {
    this.parts = parts;
  }

  show(battle, n, t) {
    const { curves, heat, orders, log } = this.parts, death = battle.deathOf(n);
    const until = death ? Math.min(t, battle.tickEnd(death.tick)) : t;
    drawHistory(curves, battle, n, until);
    heat.textContent = heatText(battle, n, until);
    orders.textContent = ordersText(battle, n, battle.momentAt(until));
    log.replaceChildren(...logOf(battle, n, until).map(({ t: when, text, tone }) => make("li", tone, make("time", "", clockText(when)), make("span", "", text))));
  }
}
