// Fire, as it looks at a moment of time: beams and shots, by the look that the catalog gives their weapons.

const BEAM_AFTERGLOW_S = 0.16;
const TRAIL_S = 1.3;
const KIND = { GLOW: 0, PUFF: 1, RING: 2, FIRE: 3 };

/** A point at the end of a way from a hull's centre, put onto its surface. */
function muzzleOf(battle, n, from, to) {
  const reach = Math.max(battle.mechs[n].half[0], 0.6);
  const way = sub(to, from), far = norm(way);
  return far > reach * 1.5 ? add(from, scale(way, reach / far)) : from;
}

/** Put what burns and flies at time `t` on `stage` (`sprites`, `ribbons`, `rings`); `isShown(n)` tells whose. */
function stageFire(stage, battle, t, isShown) {
  for (const beam of battle.beams) {
    const age = t - battle.tickEnd(beam.tick) + battle.common.dt_s;
    if (age >= 0 && age < BEAM_AFTERGLOW_S && (isShown(beam.shooter) || isShown(beam.target))) stageBeam(stage, battle, beam, age);
  }
  for (const flight of battle.flights) {
    const launch = battle.tickEnd(flight.launch), end = battle.tickEnd(flight.end);
    if (t < launch || t > end + TRAIL_S || !(isShown(flight.shooter) || isShown(flight.victim))) continue;
    const { look, colour } = battle.weapon(flight.weapon), tint = colour && rgb(colour);
    if (t <= end) FLIERS[look]?.(stage, battle, flight, t, launch, tint);
    if (look === "rocket") stageTrail(stage, battle, flight, t, launch, end);
    if (look === "slug") stageWake(stage, battle, flight, t, launch, end, tint);
    if (t - launch < 0.12 && look !== "canister") stageMuzzle(stage, battle.flightAt(flight, launch), t - launch, look);
  }
}

function stageBeam(stage, battle, beam, age) {
  const weapon = battle.weapon(beam.weapon), side = battle.mechs[beam.shooter].side;
  const centre = [beam.x0, beam.y0, beam.z0].map((v) => v / UNIT.pos);
  const to = [beam.x1, beam.y1, beam.z1].map((v) => v / UNIT.pos);
  const from = muzzleOf(battle, beam.shooter, centre, to);
  const fade = 1 - age / BEAM_AFTERGLOW_S;
  if (weapon.look === "flame") return stageFlame(stage, from, to, beam.tick, fade);
  const colour = weapon.colour ? rgb(weapon.colour) : BEAM_COLOURS[weapon.look][side];
  const wide = weapon.look === "ray" ? 0.13 : 0.05;
  stage.ribbons.push(...from, wide, ...to, wide, ...colour, fade, ...colour, fade);
  if (weapon.look === "ray") {
    stage.ribbons.push(...from, 0.5, ...to, 0.5, ...colour, fade * 0.25, ...colour, fade * 0.25);
    stage.sprites.push(...to, 0.9, ...HOT, fade, KIND.GLOW);
    stage.sprites.push(...from, 0.6, ...colour, fade * 0.8, KIND.GLOW);
  }
}

function stageFlame(stage, from, to, seed, fade) {
  for (let i = 0; i < 9; i++) {
    const k = (i + 0.5) / 9;
    const off = [0, 1, 2].map((axis) => (chance(seed, i, axis) - 0.5) * 0.9 * k);
    const hot = mix3([1, 0.85, 0.45], [1, 0.32, 0.06], k);
    stage.sprites.push(...add(mix3(from, to, k), off), 0.25 + 0.75 * k, ...hot, fade * (1 - 0.5 * k), KIND.FIRE);
  }
}

const FLIERS = {
  rocket(stage, battle, flight, t, launch, tint) {
    const at = battle.flightAt(flight, t), before = battle.flightAt(flight, Math.max(t - 0.07, launch));
    const colour = tint || TEAM_LIGHT[battle.mechs[flight.shooter].side];
    stage.ribbons.push(...before, 0.1, ...at, 0.16, ...colour, -0.9, ...colour, -1);
    stage.sprites.push(...before, 0.7, ...FLAME, 0.9, KIND.GLOW);
    stage.sprites.push(...at, 0.35, 1, 0.95, 0.85, 0.9, KIND.GLOW);
  },
  tracer(stage, battle, flight, t, launch, tint) {
    const at = battle.flightAt(flight, t), before = battle.flightAt(flight, Math.max(t - 0.05, launch));
    stage.ribbons.push(...before, 0.03, ...at, 0.09, ...(tint || [1, 0.75, 0.3]), 0.15, ...(tint || [1, 0.9, 0.55]), 1);
  },
  slug(stage, battle, flight, t, launch, tint) {
    const at = battle.flightAt(flight, t), before = battle.flightAt(flight, Math.max(t - 0.09, launch));
    stage.ribbons.push(...before, 0.06, ...at, 0.22, ...(tint || [0.75, 0.9, 1]), 0.3, ...(tint || [0.9, 0.97, 1]), 1);
    stage.sprites.push(...at, 1.1, ...(tint || [0.8, 0.92, 1]), 1, KIND.GLOW);
  },
  canister(stage, battle, flight, t, launch, tint) {
    stage.sprites.push(...battle.flightAt(flight, t), 0.35, ...(tint || [0.75, 0.77, 0.8]), 0.95, KIND.PUFF);
  },
};

/** Smoke that a rocket leaves behind. */
function stageTrail(stage, battle, flight, t, launch, end) {
  const step = 0.055;
  const last = Math.min(t, end);
  for (let i = Math.max(0, Math.ceil((t - TRAIL_S - launch) / step)); launch + i * step < last; i++) {
    const age = (t - launch - i * step) / TRAIL_S;
    const at = battle.flightAt(flight, launch + i * step);
    const drift = [0, 1, 2].map((axis) => (chance(flight.first, i, axis) - 0.5) * 0.5 * age);
    const grey = 0.86 - 0.2 * chance(i, flight.first);
    stage.sprites.push(...add(at, drift), 0.14 + 0.5 * age, grey, grey, grey, 0.42 * (1 - age) ** 1.4, KIND.PUFF);
  }
}

/** The streak that a slug leaves in the air. */
function stageWake(stage, battle, flight, t, launch, end, tint) {
  const fade = 1 - (t - Math.min(t, end)) / 0.3;
  if (fade <= 0) return;
  const tail = battle.flightAt(flight, Math.max(launch, Math.min(t, end) - 0.35)), head = battle.flightAt(flight, Math.min(t, end));
  stage.ribbons.push(...tail, 0.05, ...head, 0.12, ...(tint || [0.6, 0.8, 1]), 0, ...(tint || [0.7, 0.88, 1]), 0.55 * fade);
}

function stageMuzzle(stage, at, age, look) {
  const size = { tracer: 0.55, slug: 1.5, rocket: 1.1 }[look] ?? 0.5;
  stage.sprites.push(...at, size, 1, 0.85, 0.55, 1 - age / 0.12, KIND.GLOW);
}
