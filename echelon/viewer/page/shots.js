// Every projectile: its target, whether it hit, and the cause of a miss.

/** Maximum angle, degrees, between the path of an unguided shot and its target. */
const AIMED_DEG = 20;
const REASONS = {
  down: "shot down", unguided: "no enemy ahead", range: "out of range", arc: "out of arc", line: "no line", moved: "target moved", aim: "aimed beside the target", flying: "still flying at the end",
};

/** The angle between two directions on the ground, degrees. */
function angleBetween(a, b) {
  const turn = Math.atan2(a[1], a[0]) - Math.atan2(b[1], b[0]);
  return Math.abs(((((turn * 180) / Math.PI) % 360) + 540) % 360 - 180);
}

/** The target of a shot: its lock, else the enemy nearest to its path; -1 without one. */
function targetOf(battle, flight, m) {
  if (flight.lock >= 0) return flight.lock;
  const from = battle.waypoint(flight.first), way = sub(battle.waypoint(flight.first + Math.min(1, flight.points - 1)), from), { side } = battle.mechs[flight.shooter];
  const off = (mech) => angleBetween(way, sub(battle.posAt(mech.n, m), from));
  const able = battle.mechs.filter((mech) => mech.side !== side && battle.has(mech.n, m, FACT.ALIVE) && off(mech) <= AIMED_DEG);
  return able.sort((a, b) => off(a) - off(b))[0]?.n ?? -1;
}

/** A shot that flew with all that tells why it missed: `{flight, target, hit, why, far, bearing, line, moved}`, vox and degrees. */
function judgeShot(battle, flight, struck) {
  const launch = battle.tickEnd(flight.launch), end = battle.tickEnd(flight.end), m = battle.momentAt(launch), target = targetOf(battle, flight, m);
  const hit = struck.has(`${flight.end} ${flight.shooter} ${flight.weapon}`) || flight.met === MET.MECH;
  if (target < 0) return { flight, target, hit, why: hit ? "" : flight.met === MET.AMS ? "down" : flight.met === MET.BATTLE_END ? "flying" : "unguided" };
  const own = battle.pose(flight.shooter, launch), then = battle.pose(target, launch).pos, now = battle.pose(target, end).pos, spec = battle.weapon(flight.weapon);
  const offset = sub(then, own.pos), far = norm(offset), bearing = angleBetween(offset, [Math.cos(own.yaw), Math.sin(own.yaw)]);
  const moved = norm(sub(now, then)), line = battle.linesOf(flight.shooter, m).includes(target), stopped = flight.met === MET.VOXEL || flight.met === MET.FLOOR;
  const reasons = [
    [flight.met === MET.AMS, "down"], [flight.met === MET.BATTLE_END, "flying"], [far > spec.range_vox, "range"], [bearing > spec.arc_deg / 2, "arc"],
    [!line && stopped, "line"], [moved > Math.max(...battle.mechs[target].half), "moved"], [flight.met === MET.VOXEL, "line"], [true, "aim"],
  ];
  return { flight, target, hit, why: hit ? "" : reasons.find(([is]) => is)[1], far, bearing, line, moved };
}

/** Every shot that flew of weapons that harm. */
function shotsOf(battle) {
  const struck = new Set(battle.harms.map(({ tick, shooter, weapon }) => `${tick} ${shooter} ${weapon}`));
  battle.judged ??= battle.flights.filter((flight) => battle.weapon(flight.weapon).damage > 0).map((flight) => judgeShot(battle, flight, struck));
  return battle.judged;
}

/** Why a shot missed, in words with its numbers. */
function whyWords({ why, target, far, bearing, line, moved }) {
  if (target < 0) return REASONS[why];
  return `${REASONS[why]}: ${far.toFixed(0)} vox, ${bearing.toFixed(0)}° off, ${line ? "clear line" : "no line"}, it moved ${moved.toFixed(1)} vox`;
}

/** A row a weapon and team, most missed first: `{weapon, side, shots, missed, why: [[reason, count], ...]}`. */
function missesOf(battle) {
  const shots = shotsOf(battle), keys = summed(shots, ({ flight }) => `${flight.weapon} ${battle.mechs[flight.shooter].side}`, () => 1);
  return keys.map(([key, count]) => {
    const [weapon, side] = key.split(" ").map(Number), missed = shots.filter(({ flight, hit }) => flight.weapon === weapon && battle.mechs[flight.shooter].side === side && !hit);
    return { weapon, side, shots: count, missed: missed.length, why: summed(missed, ({ why }) => why, () => 1).map(([why, number]) => [why, number]) };
  }).sort((a, b) => b.missed / b.shots - a.missed / a.shots || b.shots - a.shots);
}

function studyShots(battle, on) {
  const rows = missesOf(battle), list = make("ol", "plain"), title = make("h3", "");
  const body = rows.map((row) => {
    const cells = [make("b", TEAMS[row.side], battle.weaponName(row.weapon)), `${row.shots}`, `${((100 * row.missed) / row.shots).toFixed(0)} %`, row.why.map(([why, count]) => `${REASONS[why]} ${count}`).join(", ") || "·"];
    const line = make("tr", "", ...cells.map((cell) => make("td", "", cell)));
    line.tabIndex = 0;
    const choose = () => {
      body.forEach((other) => other.classList.toggle("chosen", other === line));
      const missed = shotsOf(battle).filter(({ flight, hit }) => !hit && flight.weapon === row.weapon && battle.mechs[flight.shooter].side === row.side);
      title.textContent = `${battle.weaponName(row.weapon)} of ${TEAMS[row.side]}: ${missed.length} missed`;
      list.replaceChildren(...missed.map((shot) => visitRow(battle, { t: battle.tickEnd(shot.flight.launch) + LEAD_S, kind: "shot", who: [shot.flight.shooter, shot.target].filter((n) => n >= 0) },
        [{ n: shot.flight.shooter }, ...(shot.target >= 0 ? [" → ", { n: shot.target }] : []), `: ${whyWords(shot)}`], (event) => on.visitShot(event, shot.flight))));
    };
    line.addEventListener("click", choose);
    line.addEventListener("keydown", (event) => event.key === "Enter" && choose());
    return Object.assign(line, { choose });
  });
  if (!rows.length) return [make("p", "", "No projectiles: only beams that hit were recorded.")];
  const table = plainTable([["weapon"], ["shots"], ["missed"], ["why", "first cause that applies: range, arc, line, target moved, aim"]], []);
  table.querySelector("tbody").append(...body);
  table.className = "picks";
  body[0].choose();
  return [table, make("p", "summary", "Projectiles only; beams are recorded only if they hit. The target of an unguided shot is the enemy nearest to its path. Click a weapon to list its shots, and a shot to show its path."), title, list];
}
