// The battle told as a list of events.

const KINDS = {
  kill: "Kills", fall: "Falls", shutdown: "Shutdowns", legs: "Legs", paint: "Paint", intercept: "Intercepts",
  zone: "Zone", end: "End",
};

/** All events in order: `{t, kind, side, who, parts}`; parts are text and `{n}` for a mech. */
function tellBattle(battle) {
  const events = [
    ...battle.deaths.map((death) => tellDeath(battle, death)),
    ...tellConditions(battle), ...tellPaint(battle), ...tellIntercepts(battle), ...tellZone(battle), tellEnd(battle),
  ];
  return events.sort((a, b) => a.t - b.t);
}

function tellDeath(battle, death) {
  const t = battle.tickEnd(death.tick), victim = battle.mechs[death.victim];
  if (death.killer < 0) {
    return { t, kind: "kill", side: 1 - victim.side, who: [victim.n], death, parts: [{ n: victim.n }, " burnt to death"] };
  }
  const killer = battle.mechs[death.killer];
  const how = death.weapon < 0 ? "" : ` with ${battle.weaponName(death.weapon)}`;
  const friend = killer.side === victim.side ? " (own team)" : "";
  return {
    t, kind: "kill", side: killer.side, who: [killer.n, victim.n], death,
    parts: [{ n: killer.n }, " killed ", { n: victim.n }, how + friend],
  };
}

const TURNS = new Map([
  [CONDITION.FELL, ["fall", " was knocked down"]], [CONDITION.SHUT_DOWN, ["shutdown", " shut down from heat"]],
  [CONDITION.LEGGED, ["legs", " lost its legs"]],
]);

/** Falls, shutdowns, lost legs, as the record tells them: those that the statistics count. */
function tellConditions(battle) {
  return battle.conditions.filter((row) => TURNS.has(row.condition)).map(({ tick, mech, condition }) => {
    const [kind, text] = TURNS.get(condition), t = battle.tickEnd(tick), why = kind === "shutdown" ? shutdownCause(battle, mech, t) : "";
    return { t, kind, side: battle.mechs[mech].side, who: [mech], parts: [{ n: mech }, text + why] };
  });
}

/** The heat of the last seconds by weapon: what it fired, and what hit it. */
function shutdownCause(battle, n, t) {
  const words = (verb, rows) => rows.filter(([, points]) => points > 0).slice(0, 2).map(([name, points]) => `${verb} ${name} +${points.toFixed(0)}`);
  const { fired, received } = heatAccount(battle, n, t), causes = [...words("fired", fired), ...words("hit by", received)];
  return causes.length ? `: ${causes.join(", ")} heat in ${LOG_S} s` : "";
}

/** Fresh paint, and who is known to have laid it. */
function tellPaint(battle) {
  const events = [], laid = battle.beams.filter((beam) => battle.weapon(beam.weapon).effect === "paint");
  for (const mech of battle.mechs) {
    for (let m = 1; m < battle.moments; m++) {
      const fresh = battle.at("paint", mech.n, m) & ~battle.at("paint", mech.n, m - 1);
      if (!fresh) continue;
      const repeat = battle.common.decision_repeat;
      const beam = laid.find((b) => b.target === mech.n && Math.floor(b.tick / repeat) === m - 1
        && (fresh >> battle.mechs[b.shooter].pack) & 1);
      const t = beam ? battle.tickEnd(beam.tick) : m * battle.decisionS;
      const by = beam ? [{ n: beam.shooter }, " painted ", { n: mech.n }] : [{ n: mech.n }, " was painted"];
      events.push({ t, kind: "paint", side: 1 - mech.side, who: beam ? [beam.shooter, mech.n] : [mech.n], parts: by });
    }
  }
  return events;
}

function tellIntercepts(battle) {
  return battle.flights.filter((flight) => flight.met === MET.AMS).map((flight) => ({
    t: battle.tickEnd(flight.end), kind: "intercept", side: 1 - battle.mechs[flight.shooter].side,
    who: flight.by >= 0 ? [flight.by, flight.shooter] : [flight.shooter], flight,
    parts: [`${battle.weaponName(flight.weapon)} of `, { n: flight.shooter }, " shot down", ...(flight.by >= 0 ? [" by ", { n: flight.by }] : [])],
  }));
}

/** The holder of the zone: 0 blue, 1 red, 2 contested, -1 empty. */
function holderAt(battle, m) {
  const blue = battle.control(0, m) > 0, red = battle.control(1, m) > 0;
  return blue && red ? 2 : blue ? 0 : red ? 1 : -1;
}

function tellZone(battle) {
  const events = [], texts = ["blue takes the zone", "red takes the zone", "the zone is contested"];
  for (let m = 1; m < battle.moments; m++) {
    const holder = holderAt(battle, m);
    if (holder === holderAt(battle, m - 1)) continue;
    const text = holder < 0 ? "the zone is empty" : texts[holder];
    events.push({ t: m * battle.decisionS, kind: "zone", side: holder < 2 ? holder : -1, who: [], parts: [text] });
  }
  return events;
}

/** The colour of the zone by who holds it: white while contested, grey while empty, so that it is told from red by any eye. */
function zoneColour(battle, m) {
  const holder = holderAt(battle, m);
  return holder === 0 || holder === 1 ? TEAM_COLOURS[holder] : holder === 2 ? [0.97, 0.98, 1] : [0.52, 0.55, 0.6];
}

/** How the battle ended, in words. */
function verdict(battle) {
  const { winner, reason } = battle.about.outcome;
  if (winner === "running") return "the recording ends";
  return winner === "draw" ? `draw, ${reason.replaceAll("_", " ")}` : `${winner} wins by ${reason.replaceAll("_", " ")}`;
}

/** What decided, in words; empty where nothing has. */
function grounds(battle) {
  const { winner, reason } = battle.about.outcome, loser = TEAMS.find((team) => team !== winner), drawn = winner === "draw";
  if (reason === "elimination") return drawn ? "Both teams lost their last mechs in one decision." : `The last mech of ${loser} died; scores and hit points do not count then.`;
  const score = `${battle.common.zone_score_to_win_s} s of zone control`;
  if (reason === "zone") return drawn ? `Both teams reached ${score} with equal scores.` : `The first team with ${score} wins, regardless of losses.`;
  if (reason === "objective") return drawn ? "Both teams reached their objectives in one decision." : `${battle.about.objective}: so ${winner} won, regardless of losses.`;
  if (reason === "time_up") return `Time was up: the higher score wins, at equal scores the team with more hit points${drawn ? "; both were equal" : ""}.`;
  return "";
}

/** An ending for a lead that did not win the battle. */
function unrewarded(battle, side) {
  const { winner } = battle.about.outcome;
  return TEAMS.includes(winner) && winner !== TEAMS[side] ? ", which did not decide" : "";
}

function tellEnd(battle) {
  const side = TEAMS.indexOf(battle.about.outcome.winner);
  return { t: battle.lengthS, kind: "end", side, who: [], parts: [verdict(battle)] };
}
