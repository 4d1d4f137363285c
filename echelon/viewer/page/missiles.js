// Every homing shot: its shooter, its target and its end.

const LAUNCH_LEAD_S = 0.1;
const ENDINGS = { hit: "hit", ams: "AMS", wall: "wall", ground: "ground", expired: "expired", battle: "battle ended" };

/** Homing shots of a battle in the order of their launch. */
function missilesOf(battle) {
  return battle.flights.filter((flight) => flight.lock >= 0 || battle.weapon(flight.weapon).look === "rocket");
}

/** Whose paint a homing shot was launched by; -1 where its target was in sight instead. */
function paintOf(battle, { lock, launch, shooter }) {
  return lock >= 0 ? painterFor(battle, { tick: launch, victim: lock, killer: shooter }) : -1;
}

/** How a homing shot knew its target, as parts of text and mechs. */
function tellLock(battle, flight) {
  if (flight.lock < 0) return [" → no target"];
  const painter = paintOf(battle, flight), own = painter === flight.shooter ? [" by its own paint"] : [" by paint of ", { n: painter }];
  return [" → ", { n: flight.lock }, ...(painter >= 0 ? own : [" in sight"])];
}

function endingOf({ met }) {
  return { [MET.MECH]: "hit", [MET.AMS]: "ams", [MET.VOXEL]: "wall", [MET.FLOOR]: "ground", [MET.NOTHING]: "expired", [MET.BATTLE_END]: "battle" }[met];
}

/** Where a missile ended, as parts of text and mechs. */
function tellEnding(battle, flight) {
  const ending = endingOf(flight);
  if (ending === "hit") return flight.victim === flight.lock ? ["hit it"] : ["hit ", { n: flight.victim }];
  if (ending === "ams") return flight.by >= 0 ? ["AMS of ", { n: flight.by }] : ["AMS (mech not recorded)"];
  return [{ wall: "hit a wall", ground: "hit the ground", expired: "expired", battle: "in flight at the end" }[ending]];
}

class Missiles {
  constructor(root, onChoose) {
    Object.assign(this, { root, onChoose });
    this.chosen = undefined;
  }

  open(battle) {
    this.battle = battle;
    this.chosen = undefined;
    this.flights = missilesOf(battle);
    this.rows = this.flights.map((flight) => this.makeRow(flight));
    const sums = summed(this.flights, (flight) => `${battle.mechs[flight.shooter].side} ${endingOf(flight)}`, () => 1);
    const text = TEAMS.map((team, side) => {
      const own = sums.filter(([key]) => key.startsWith(`${side} `)).map(([key, count]) => `${count} ${ENDINGS[key.slice(2)]}`);
      return make("p", "", make("b", team, team), ` ${own.join(" · ") || "launched nothing"}`);
    });
    const head = make("div", "ending-sums", ...text, ...this.paintSums());
    const list = make("ol", "", ...this.rows.map((row) => make("li", "", row)));
    this.root.replaceChildren(head, list);
  }

  /** For how many launches each mech's paint was used, and how many of these launches hit. */
  paintSums() {
    const used = this.flights.map((flight) => ({ by: paintOf(this.battle, flight), hit: endingOf(flight) === "hit" })).filter(({ by }) => by >= 0);
    return summed(used, ({ by }) => by, ({ hit }) => Number(hit)).map(([n, hits, count]) => make("p", "", "paint of ", this.word({ n }), `: ${count} launched by it, ${hits} hit`));
  }

  makeRow(flight) {
    const { battle } = this, parts = [{ n: flight.shooter }, ...tellLock(battle, flight), ": ", ...tellEnding(battle, flight)];
    const text = make("span", "what", ...parts.map((part) => this.word(part)));
    const seconds = make("span", "took", `${(battle.tickEnd(flight.end) - battle.tickEnd(flight.launch)).toFixed(1)} s`);
    const button = make("button", `event ${TEAMS[battle.mechs[flight.shooter].side]}`, make("time", "", clockText(battle.tickEnd(flight.launch))), text, seconds);
    Object.assign(button, { type: "button", title: "Go to its launch and show its path" });
    button.dataset.ending = endingOf(flight);
    button.addEventListener("click", () => this.choose(flight, button));
    return button;
  }

  word(part) {
    return typeof part === "string" ? part : make("b", this.battle.mechs[part.n].team, this.battle.mechs[part.n].name);
  }

  choose(flight, button) {
    this.chosen = this.chosen === flight ? undefined : flight;
    this.rows.forEach((row) => row.classList.toggle("chosen", row === button && this.chosen !== undefined));
    if (this.chosen) this.onChoose(flight);
  }
}

/** Draw the way of a missile over the field, a cross where it ended. */
function drawPath(overlay, scene, battle, flight) {
  const { pen } = overlay, points = Array.from({ length: flight.points }, (_, i) => overlay.project(scene.matrix, battle.waypoint(flight.first + i))).filter(Boolean);
  if (points.length < 2) return;
  for (const [colour, wide] of [["rgba(10,13,17,0.75)", 4.5], [css(TEAM_LIGHT[battle.mechs[flight.shooter].side]), 2]]) {
    Object.assign(pen, { strokeStyle: colour, lineWidth: wide });
    pen.beginPath();
    for (const [x, y] of points) pen.lineTo(x, y);
    const [x, y] = points.at(-1);
    for (const [dx, dy] of [[5, 5], [5, -5]]) {
      pen.moveTo(x - dx, y - dy);
      pen.lineTo(x + dx, y + dy);
    }
    pen.stroke();
  }
}
