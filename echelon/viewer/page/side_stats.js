// Flanks: parts of a team that left its main body, the enemies they met, and the outcome.

/** How far apart mechs stand that are not together, as a share of the longer side of the map. */
const APART_SHARE = 0.2;
/** Shorter ways apart are no flank, and shorter meetings on the way no return, s. */
const FLANK_S = 2, RETURN_S = 1;

/** The mechs of a side alive at a moment in groups, each nearer to another of its group than `apart`; the largest first. */
function groupsAt(battle, side, m, apart) {
  const left = battle.mechs.filter((mech) => mech.side === side && battle.has(mech.n, m, FACT.ALIVE)).map(({ n }) => ({ n, pos: battle.posAt(n, m) })), groups = [];
  while (left.length) {
    const group = [left.shift()];
    for (const { pos } of group) {
      for (let i = left.length - 1; i >= 0; i--) if (Math.hypot(left[i].pos[0] - pos[0], left[i].pos[1] - pos[1]) < apart) group.push(...left.splice(i, 1));
    }
    groups.push(group.map(({ n }) => n).sort((a, b) => a - b));
  }
  return groups.sort((a, b) => b.length - a.length || a[0] - b[0]);
}

/** When each mech was away from the main body of its team: `{n, from, to}`, moments. */
function waysApart(battle, side, groups) {
  const longest = Math.round(RETURN_S / battle.decisionS), shortest = FLANK_S / battle.decisionS;
  return battle.mechs.filter((mech) => mech.side === side).flatMap(({ n }) => {
    const ways = [];
    for (let m = 0; m < battle.moments; m++) {
      if (!battle.has(n, m, FACT.ALIVE) || !groups[m].length || groups[m][0].includes(n)) continue;
      if (ways.length && m - ways.at(-1).to <= longest) ways.at(-1).to = m;
      else ways.push({ n, from: m, to: m });
    }
    return ways.filter(({ from, to }) => to - from >= shortest);
  });
}

/** Flanks of both teams: `{side, who, from, to, ended, met, enemies, dealt, taken, lost, others}`, times in s; `others`: when the rest
 *  of the team first fought after the flank had left. What was not is undefined. */
function flanksOf(battle) {
  const apart = APART_SHARE * Math.max(...battle.size.slice(0, 2)), near = Math.round(FLANK_S / battle.decisionS);
  return [0, 1].flatMap((side) => {
    const groups = Array.from({ length: battle.moments }, (_, m) => groupsAt(battle, side, m, apart)), flanks = [];
    for (const way of waysApart(battle, side, groups).sort((a, b) => a.from - b.from)) {
      const together = (flank) => Math.abs(flank.from - way.from) <= near && groups[Math.min(Math.max(flank.from, way.from) + 1, battle.decisions)].some((group) => group.includes(way.n) && group.includes(flank.who[0]));
      const known = flanks.find(together);
      if (known) Object.assign(known, { who: [...known.who, way.n], to: Math.max(known.to, way.to) });
      else flanks.push({ side, who: [way.n], from: way.from, to: way.to });
    }
    return flanks.map((flank) => tellFlank(battle, flank));
  }).sort((a, b) => a.from - b.from);
}

/** What became of a flank. */
function tellFlank(battle, { side, who, from, to }) {
  const s = (m) => m * battle.decisionS, within = (tick) => battle.tickEnd(tick) > s(from) && battle.tickEnd(tick) <= s(to + 1) + 1e-6;
  const hostile = battle.harms.filter(({ shooter, target }) => battle.mechs[shooter].side !== battle.mechs[target].side);
  const own = hostile.filter(({ tick, shooter, target }) => within(tick) && (who.includes(shooter) || who.includes(target)));
  const rest = hostile.find(({ tick, shooter, target }) => battle.tickEnd(tick) > s(from) && [shooter, target].some((n) => battle.mechs[n].side === side && !who.includes(n)));
  const points = (rows) => rows.reduce((sum, { damage }) => sum + damage / UNIT.points, 0);
  const lost = battle.deaths.filter(({ tick, victim }) => who.includes(victim) && within(tick)).map(({ victim }) => victim);
  return {
    side, who, from: s(from), to: s(to), ended: lost.length === who.length ? "died" : to >= battle.decisions ? "end" : "joined",
    met: own.length ? battle.tickEnd(own[0].tick) : undefined, enemies: [...new Set(own.map(({ shooter, target }) => (battle.mechs[shooter].side === side ? target : shooter)))],
    dealt: points(own.filter(({ shooter }) => who.includes(shooter))), taken: points(own.filter(({ target }) => who.includes(target))),
    lost, others: rest && battle.tickEnd(rest.tick),
  };
}

/** Describe a flank: its mechs, the enemies they met, the delay to the fight of the others, and the outcome. */
function flankParts(battle, { who, from, to, ended, met, enemies, dealt, taken, lost, others }) {
  const list = (mechs) => mechs.flatMap((n, i) => [i ? ", " : "", { n }]);
  const parts = [...list(who), from ? " left its team" : " started apart"];
  if (met === undefined) parts.push(", met no enemy");
  else {
    const early = others === undefined ? "; the others did not fight" : others - met >= 0.5 ? `, ${(others - met).toFixed(1)} s before the others fought` : met - others >= 0.5 ? `, ${(met - others).toFixed(1)} s after the others fought` : ", as the others fought";
    parts.push(` and met `, ...list(enemies), ` at ${clockText(met)}${early}: ${who.length} against ${enemies.length}, dealt ${dealt.toFixed(0)}, took ${taken.toFixed(0)}`);
  }
  const end = { died: who.length > 1 ? "all died" : "died", joined: `joined again at ${clockText(to)}`, end: "apart until the end" }[ended];
  return [...parts, `; ${lost.length && ended !== "died" ? `lost ${lost.length}, ` : ""}${end}`];
}

function studyFlanks(battle, on) {
  const flanks = flanksOf(battle), apart = (APART_SHARE * Math.max(...battle.size.slice(0, 2))).toFixed(0);
  const rows = flanks.map((flank) => visitRow(battle, { t: flank.met ?? flank.from, kind: "flank", who: flank.who }, flankParts(battle, flank), on.visit));
  const note = make("p", "summary", `Apart: for at least ${FLANK_S} s, at least ${apart} vox from every mech of the team's largest group.`);
  return [rows.length ? make("ol", "plain", ...rows) : make("p", "", "No mech left its team."), note];
}
