// Who stood between the heaviest mechs of a team and the enemy that threatened them.

/** Maximum distance of a screening mech from the line between an enemy and its target, vox. */
const SCREEN_VOX = 4;

/** The mechs of a team that others screen: its heavies, or where it has none those with most hit points. */
function wardsOf(battle, side) {
  const own = battle.mechs.filter((mech) => mech.side === side), heavy = own.filter((mech) => mech.class === "heavy");
  const most = Math.max(...own.map((mech) => mech.hp));
  return own.length < 2 ? [] : heavy.length && heavy.length < own.length ? heavy : own.filter((mech) => mech.hp === most);
}

/** How far a point stands beside the ground line from one point to another, and how far along it, 0..1. */
function besideLine([px, py], [ax, ay], [bx, by]) {
  const [dx, dy] = [bx - ax, by - ay], long = Math.hypot(dx, dy) || 1e-6;
  return { off: Math.abs((px - ax) * dy - (py - ay) * dx) / long, along: ((px - ax) * dx + (py - ay) * dy) / (long * long) };
}

/** The nearest enemy of a mech and the teammate between both at a moment: `{threat, by}`, each -1 if none. */
function screenAt(battle, n, m) {
  const place = battle.posAt(n, m), { side } = battle.mechs[n], living = battle.mechs.filter((mech) => mech.n !== n && battle.has(mech.n, m, FACT.ALIVE));
  const far = (other) => Math.hypot(...sub(battle.posAt(other.n, m), place).slice(0, 2)), nearest = (list, by) => list.sort((a, b) => by(a) - by(b))[0];
  const threat = nearest(living.filter((mech) => mech.side !== side && far(mech) <= battle.common.sight_range_vox), far);
  if (!threat) return { threat: -1, by: -1 };
  const from = battle.posAt(threat.n, m), way = (mech) => besideLine(battle.posAt(mech.n, m), from, place);
  const between = living.filter((mech) => mech.side === side && way(mech).off <= SCREEN_VOX && way(mech).along > 0 && way(mech).along < 1);
  return { threat: threat.n, by: nearest(between, (mech) => way(mech).off)?.n ?? -1 };
}

/** For each ward: `{n, threatened, screened, by: [[mech, seconds], ...], screenedLoss, openLoss}`, seconds and hit points a second. */
function screensOf(battle) {
  const lost = (n, m) => Math.max(battle.at("hp", n, m) - battle.at("hp", n, m + 1), 0) / UNIT.points;
  return [0, 1].flatMap((side) => wardsOf(battle, side)).map(({ n }) => {
    const sum = { n, threatened: 0, screened: 0, losses: [0, 0] }, seconds = new Map();
    for (let m = 0; m < battle.decisions && battle.has(n, m, FACT.ALIVE); m++) {
      const { threat, by } = screenAt(battle, n, m), covered = by >= 0 ? 1 : 0;
      if (threat < 0) continue;
      sum.threatened += battle.decisionS;
      sum.screened += covered * battle.decisionS;
      sum.losses[covered] += lost(n, m);
      if (covered) seconds.set(by, (seconds.get(by) ?? 0) + battle.decisionS);
    }
    const rate = (points, time) => (time > 0 ? points / time : NaN);
    return {
      n, threatened: sum.threatened, screened: sum.screened, by: [...seconds].sort((a, b) => b[1] - a[1]),
      screenedLoss: rate(sum.losses[1], sum.screened), openLoss: rate(sum.losses[0], sum.threatened - sum.screened),
    };
  });
}

function studyScreens(battle, on) {
  const tag = (n) => make("b", battle.mechs[n].team, battle.mechs[n].tag), loss = (x) => (Number.isNaN(x) ? "·" : x.toFixed(1));
  const rows = screensOf(battle).map(({ n, threatened, screened, by, screenedLoss, openLoss }) => [
    tag(n), `${threatened.toFixed(0)} s`, threatened ? `${((100 * screened) / threatened).toFixed(0)} %` : "·",
    make("span", "", ...(by.length ? by.slice(0, 3).flatMap(([other, s], i) => [i ? ", " : "", tag(other), ` ${s.toFixed(0)} s`]) : ["no mech"])),
    `${loss(screenedLoss)} : ${loss(openLoss)}`,
  ]);
  const heads = [["mech"], ["in sight of an enemy"], ["screened"], ["by", "most first"], ["hp/s lost", "while screened : while not"]];
  const note = make("p", "summary", `Screened: a teammate is within ${SCREEN_VOX} vox of the line to the nearest enemy in sight range, and closer to that enemy. The paths of the last ${WAY_S} s:`);
  const trails = make("button", "", "Trails on the field");
  trails.type = "button";
  trails.addEventListener("click", () => on.flip("showTrails"));
  return [plainTable(heads, rows), note, trails];
}
