// Lanes, lists and tables of a battle as comma-separated values.

/** A field as it stands in a file: quoted where it has to be. */
function csvField(value) {
  const text = value === undefined || value === null || Number.isNaN(value) ? "" : typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(7))) : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Rows of one set of names as a file. */
function csvOf(rows) {
  const names = Object.keys(rows[0] ?? {});
  return [names, ...rows.map((row) => names.map((name) => row[name]))].map((line) => line.map(csvField).join(",")).join("\r\n") + "\r\n";
}

const nameOf = (battle, n) => (n >= 0 ? battle.mechs[n].name : "");
const everyMoment = (battle, tell) => Array.from({ length: battle.moments }, (_, m) => tell(m, m * battle.decisionS));
const namesOf = (battle, list) => list.map((n) => nameOf(battle, n)).join("; ");
const inWords = (battle, parts) => parts.map((part) => (typeof part === "string" ? part : nameOf(battle, part.n))).join("");

/** Every lane at every moment, both teams. */
function laneRows(battle) {
  const course = courseOf(battle), seen = TEAMS.map((_, side) => sightOf(battle).shares(side)), heat = TEAMS.map((_, side) => heatCourses(battle, side));
  return everyMoment(battle, (m, time_s) => Object.assign({ time_s }, ...TEAMS.flatMap((team, side) => [
    { [`${team}_score_s`]: battle.score(side, m) },
    ...Object.entries(course).map(([name, sides]) => ({ [`${team}_${name}`]: sides[side][m] })),
    { [`${team}_heat`]: heat[side][0][m], [`${team}_heat_most`]: heat[side][1][m], [`${team}_map_in_sight`]: seen[side][0][m], [`${team}_map_seen`]: seen[side][1][m] },
  ])));
}

/** A row a mech and moment. */
function mechRows(battle) {
  return battle.mechs.flatMap((mech) => everyMoment(battle, (m, time_s) => {
    const [x, y, z] = battle.posAt(mech.n, m), state = battle.condition(mech.n, m), facts = Object.entries(FACT).map(([name, bit]) => [name.toLowerCase(), Number((state.facts & bit) !== 0)]);
    const wide = battle.arrays.messages.shape[2], said = Array.from({ length: wide }, (_, c) => [`said_${c + 1}`, battle.at("messages", mech.n * wide + c, m) / 127]);
    return { mech: mech.name, time_s, x, y, z, yaw_rad: battle.yawAt(mech.n, m), hp: state.hp * mech.hp, legs: state.legs * mech.leg_hp, heat: state.heat, stability: state.stability, focus: nameOf(battle, state.focus), ...Object.fromEntries([...facts, ...said]) };
  }));
}

/** An event table with names for numbers of mechs and weapons, and seconds for ticks. */
function eventRows(battle, table) {
  const mechs = ["shooter", "target", "lock", "victim", "by", "killer", "owner", "mech"], scaled = { damage: UNIT.points };
  const told = (name, value) => {
    if (name === "tick" || name === "launch" || name === "end") return [name === "tick" ? "time_s" : `${name}_s`, battle.tickEnd(value)];
    if (mechs.includes(name)) return [name, nameOf(battle, value)];
    if (name === "weapon") return [name, value >= 0 ? battle.weaponName(value) : ""];
    if (/^[xyz]\d?$/.test(name)) return [name, table === "voxels" ? value : value / UNIT.pos];
    return [name, value / (scaled[name] ?? 1)];
  };
  const keyed = { met: MET, condition: CONDITION };
  return battle[table].map((row) => Object.fromEntries(Object.entries(row).filter(([name]) => name !== "first" && name !== "points").map(([name, value]) => (
    keyed[name] ? [name, Object.keys(keyed[name]).find((key) => keyed[name][key] === value)?.toLowerCase()] : name === "material" ? [name, battle.common.materials[value]] : told(name, value)))));
}

const oddsRows = ({ about }) => (about.odds?.s ?? []).map((time_s, k) => ({ time_s, blue_wins: about.odds.blue[k], low: about.odds.low[k], high: about.odds.high[k], branches: about.odds.branches }));

const worthRows = (battle) => [
  ...Object.entries(battle.about.odds?.mechs ?? {}).flatMap(([otherwise, part]) => battle.mechs.map(({ n, name }) => ({ mech: name, otherwise, from_s: battle.about.odds.at_s, difference: part.difference[n], low: part.low[n], high: part.high[n] }))),
  ...(battle.about.odds?.deaths ?? []).map(({ mech, s, difference, low, high }) => ({ mech: nameOf(battle, mech), otherwise: "not died", from_s: s, difference, low, high })),
];

/** What can be kept: by the name of its file what it holds, and its rows. */
const TABLES_TO_KEEP = {
  lanes: { title: "Both teams at every moment: score, hit points, mechs, damage, zone, reward, value, heat, map seen", rows: laneRows },
  wins: { title: "Blue's win rate from each moment on", rows: oddsRows }, worth: { title: "Value of each mech", rows: worthRows },
  mechs: { title: "Every mech at every moment", rows: mechRows },
  accounts: { title: "Statistics of each mech over the battle", rows: (b) => accountsOf(b).map(({ n, weapons, ...row }) => ({ mech: nameOf(b, n), ...row, with: [...weapons].map(([w, hp]) => `${w < 0 ? "?" : b.weaponName(w)} ${hp.toFixed(1)}`).join("; ") })) },
  statistics: { title: "The numbers of both teams", rows: (b) => Object.entries(b.about.outcome.stats).map(([statistic, [blue, red]]) => ({ statistic, blue, red })) },
  events: { title: "The list of events", rows: (b) => tellBattle(b).map(({ t, kind, side, parts }) => ({ time_s: t, kind, team: TEAMS[side] ?? "", text: inWords(b, parts) })) },
  shots: { title: "Every projectile, whether it hit, and the reason for a miss", rows: (b) => shotsOf(b).map(({ flight, target, hit, why, far, bearing, line, moved }) => ({ launch_s: b.tickEnd(flight.launch), shooter: nameOf(b, flight.shooter), weapon: b.weaponName(flight.weapon), target: nameOf(b, target), hit: Number(hit), why: REASONS[why] ?? "", range_vox: far, bearing_deg: bearing, line: line === undefined ? "" : Number(line), target_moved_vox: moved })) },
  missiles: { title: "Homing shots, the paint that they used and how they ended", rows: (b) => missilesOf(b).map((f) => ({ launch_s: b.tickEnd(f.launch), shooter: nameOf(b, f.shooter), weapon: b.weaponName(f.weapon), target: nameOf(b, f.lock), paint_of: nameOf(b, paintOf(b, f)), ended: endingOf(f), end_s: b.tickEnd(f.end) })) },
  screens: { title: "Who screened the heavies", rows: (b) => screensOf(b).map(({ n, by, ...row }) => ({ mech: nameOf(b, n), threatened_s: row.threatened, screened_s: row.screened, hp_per_s_screened: row.screenedLoss, hp_per_s_open: row.openLoss, by: by.map(([other, s]) => `${nameOf(b, other)} ${s.toFixed(2)} s`).join("; ") })) },
  flanks: { title: "Mechs that left their team, enemies they met, and the outcome", rows: (b) => flanksOf(b).map(({ side, who, from, to, ended, met, enemies, dealt, taken, lost, others }) => ({ team: TEAMS[side], mechs: namesOf(b, who), from_s: from, to_s: to, ended, met_s: met, enemies: namesOf(b, enemies), dealt, taken, lost: namesOf(b, lost), others_fought_s: others })) },
  messages: { title: "Correlation of messages with what happened", rows: (b) => TEAMS.flatMap((team, side) => correlationsOf(b, side).table.flatMap((row, i) => row.map((r, c) => ({ team, happening: HAPPENINGS[i][0], channel: c + 1, r })))) },
  ...Object.fromEntries(Object.keys(COLUMNS).map((name) => [name, { title: `Every row of ${name}, as recorded`, rows: (b) => eventRows(b, name) }])),
};

/** Offer a table of the battle that is open as a file. */
function keepTable(viewer, name) {
  const rows = TABLES_TO_KEEP[name].rows(viewer.battle);
  if (!rows.length) return viewer.say(`${name}: nothing was recorded`);
  offer(new Blob([csvOf(rows)], { type: "text/csv" }), `echelon-battle-${viewer.state.battle + 1}-${name}.csv`);
  viewer.say(`${name}: ${rows.length} rows saved`);
}
