// What mechs said to their packs, beside what happened to them: numbers of a message against facts of the same moment.

/** Facts of a mech at a moment that a message may go with. */
const HAPPENINGS = [
  ["enemies known", (b, n, m) => b.contactsOf(n, m).filter(({ facts }) => facts & SHOWN.HOSTILE).length],
  ["hp lost", (b, n, m) => (m ? Math.max(b.at("hp", n, m - 1) - b.at("hp", n, m), 0) / UNIT.points : 0)],
  ["hp dealt", (b, n, m) => b.dealtBy[n][m]],
  ["under fire", (b, n, m) => Number(b.has(n, m, FACT.UNDER_FIRE))], ["in the zone", (b, n, m) => Number(b.has(n, m, FACT.IN_ZONE))],
  ["painted", (b, n, m) => Number(b.at("paint", n, m) > 0)], ["heat", (b, n, m) => b.condition(n, m).heat], ["hit points", (b, n, m) => b.condition(n, m).hp],
];
const STRONG = 0.3;

/** Hit points that each mech took from enemies in the decision before each moment. */
function dealtBy(battle) {
  const dealt = battle.mechs.map(() => new Float32Array(battle.moments));
  for (const { tick, shooter, target, damage } of battle.harms) {
    const m = Math.floor(tick / battle.common.decision_repeat) + 1;
    if (battle.mechs[shooter].side !== battle.mechs[target].side && m < battle.moments) dealt[shooter][m] += damage / UNIT.points;
  }
  return dealt;
}

/** Pearson's correlation of two lists; NaN where one never changes. */
function correlation(xs, ys) {
  const count = xs.length, mean = (v) => v.reduce((a, b) => a + b, 0) / count, mx = mean(xs), my = mean(ys);
  let xy = 0, xx = 0, yy = 0;
  xs.forEach((x, i) => {
    xy += (x - mx) * (ys[i] - my);
    xx += (x - mx) ** 2;
    yy += (ys[i] - my) ** 2;
  });
  return xx > 1e-9 && yy > 1e-9 ? xy / Math.sqrt(xx * yy) : NaN;
}

/** For a side: `{samples, table: [happening][channel] r}` over all moments of its living mechs. */
function correlationsOf(battle, side) {
  battle.dealtBy ??= dealtBy(battle);
  const wide = battle.arrays.messages.shape[2], spots = [];
  for (const { n, side: own } of battle.mechs) if (own === side) for (let m = 1; m < battle.moments; m++) if (battle.has(n, m, FACT.ALIVE)) spots.push([n, m]);
  const said = Array.from({ length: wide }, (_, c) => spots.map(([n, m]) => battle.at("messages", n * wide + c, m) / 127));
  return { samples: spots.length, table: HAPPENINGS.map(([, value]) => { const fact = spots.map(([n, m]) => value(battle, n, m)); return said.map((numbers) => correlation(numbers, fact)); }) };
}

/** Mean over the living mechs of a side at each moment, NaN where none lives. */
function meanCourse(battle, side, value) {
  return Float32Array.from({ length: battle.moments }, (_, m) => {
    const own = battle.mechs.filter((mech) => mech.side === side && battle.has(mech.n, m, FACT.ALIVE));
    return own.length ? own.reduce((sum, { n }) => sum + value(battle, n, m), 0) / own.length : NaN;
  });
}

/** The chart of a channel of a side, beside what happened, both means over its mechs, each scaled to its own range. */
function channelChart(battle, side, channel, happening, on) {
  const wide = battle.arrays.messages.shape[2], [name, value] = HAPPENINGS[happening], facts = meanCourse(battle, side, value);
  const known = [...facts].filter((x) => !Number.isNaN(x)), low = Math.min(...known), span = Math.max(...known) - low || 1;
  const curves = [
    { label: `channel ${channel + 1}`, tint: `--${TEAMS[side]}`, values: meanCourse(battle, side, (b, n, m) => (b.at("messages", n * wide + channel, m) / 127 + 1) / 2) },
    { label: name, tint: "--text", dashed: true, values: facts.map((x) => (x - low) / span) },
  ];
  return new Chart(battle, { title: `${TEAMS[side]}, channel ${channel + 1} (solid) and ${name} (dashed), each scaled to its own range`, curves, tell: (v) => `${(100 * v).toFixed(0)} %` }, on.seek);
}

function studyMessages(battle, on) {
  const place = make("div", ""), cells = [];
  const pick = (side, channel, happening, cell) => {
    const chart = channelChart(battle, side, channel, happening, on);
    place.replaceChildren(chart.element);
    on.charts([chart]);
    cells.forEach((other) => other.setAttribute("aria-pressed", other === cell));
  };
  const parts = TEAMS.flatMap((team, side) => {
    const { samples, table } = correlationsOf(battle, side), wide = table[0].length;
    if (!table.flat().some((r) => !Number.isNaN(r))) return [make("p", "", make("b", team, team), samples ? ": messages are constant." : ": no messages.")];
    const rows = HAPPENINGS.map(([name], i) => [name, ...table[i].map((r, channel) => {
      if (Number.isNaN(r)) return "·";
      const cell = make("button", Math.abs(r) >= STRONG ? "strong" : "", fixed(r, 2));
      Object.assign(cell, { type: "button", r, title: `${team}: channel ${channel + 1} and ${name}, over time` });
      cell.pick = () => pick(side, channel, i, cell);
      cell.addEventListener("click", cell.pick);
      cells.push(cell);
      return cell;
    })]);
    const heads = [[`${team}: r of`], ...Array.from({ length: wide }, (_, c) => [`${c + 1}`, `channel ${c + 1}`])];
    return [plainTable(heads, rows), make("p", "summary", `${team}: ${samples} samples of living mechs. Samples of one battle are correlated, so this is only a hint.`)];
  });
  [...cells].sort((a, b) => Math.abs(b.r) - Math.abs(a.r))[0]?.pick();
  const note = make("p", "summary", "Correlation of each message channel with the state of its sender at that moment. Click a value to plot it over time.");
  return [...(cells.length ? [note] : []), place, ...parts];
}
