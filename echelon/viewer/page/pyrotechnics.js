// What fire leaves: bursts, explosions, smoke clouds, flames on wrecks, glowing and venting hulls.

/** By the look of a weapon: how long its burst lasts, and how large it is. */
const BURST_S = { rocket: 0.75, slug: 0.6, tracer: 0.22, canister: 0 };
const BURST_VOX = { rocket: 1.9, slug: 1.4, tracer: 0.55 };
const EXPLOSION_S = 3.2;
const CLOUD_PUFFS = 34;

/** Put bursts, explosions and smoke at time `t` on the stage. */
function stageBursts(stage, battle, t, isShown) {
  for (const flight of battle.flights) {
    const { look } = battle.weapon(flight.weapon), age = t - battle.tickEnd(flight.end);
    if (age < 0 || age > BURST_S[look] || !(isShown(flight.shooter) || isShown(flight.victim))) continue;
    const at = battle.waypoint(flight.first + flight.points - 1);
    if (flight.met === MET.AMS) stageIntercept(stage, at, age / BURST_S.rocket);
    else if (flight.met !== MET.NOTHING && flight.met !== MET.BATTLE_END) stageBurst(stage, at, look, age, flight.first);
  }
  for (const death of battle.deaths) {
    const age = t - battle.tickEnd(death.tick);
    if (age >= 0 && age < EXPLOSION_S && isShown(death.victim)) stageExplosion(stage, battle, death, age);
  }
  for (const cloud of battle.clouds) stageCloud(stage, battle, cloud, t);
}

function stageBurst(stage, at, look, age, seed) {
  const k = age / BURST_S[look], size = BURST_VOX[look];
  const flash = Math.max(1 - k * 2.2, 0);
  stage.sprites.push(...at, size * (0.7 + 0.6 * k), 1, 0.72, 0.36, flash, KIND.GLOW);
  if (look === "tracer") return;
  stage.sprites.push(...at, size * (0.4 + 1.3 * k), 1, 0.85, 0.6, (1 - k) * 0.5, KIND.RING);
  for (let i = 0; i < 8; i++) {
    const way = [chance(seed, i, 1) - 0.5, chance(seed, i, 2) - 0.5, chance(seed, i, 3) * 0.7];
    const p = add(at, scale(way, size * 2.2 * Math.sqrt(k)));
    stage.sprites.push(...p, size * 0.34 * (0.5 + k), 0.36, 0.33, 0.3, 0.55 * (1 - k), KIND.PUFF);
    stage.sprites.push(...p, size * 0.24 * (1 - k), ...FLAME, 1 - k, KIND.FIRE);
  }
}

function stageIntercept(stage, at, k) {
  stage.sprites.push(...at, 0.9, 0.8, 0.95, 1, Math.max(1 - k * 2, 0), KIND.GLOW);
  stage.sprites.push(...at, 0.5 + 1.6 * k, 0.7, 0.9, 1, (1 - k) * 0.9, KIND.RING);
}

/** A mech that dies: a flash, a ball of fire, then a column of smoke. */
function stageExplosion(stage, battle, death, age) {
  const mech = battle.mechs[death.victim], reach = mech.half[2] * 1.3;
  const at = battle.pose(death.victim, battle.tickEnd(death.tick)).pos;
  const flash = clamp(1 - age / 0.35, 0, 1), shock = clamp(age / 0.6, 0, 1);
  stage.sprites.push(...at, reach * 2.4, 1, 0.74, 0.42, flash * 0.9, KIND.GLOW);
  if (shock < 1) stage.sprites.push(...at, reach * (0.5 + 2.4 * shock), 1, 0.8, 0.5, (1 - shock) * 0.8, KIND.RING);
  for (let i = 0; i < 16; i++) {
    const born = chance(death.victim, i) * 0.5, k = (age - born) / (EXPLOSION_S - born);
    if (k <= 0) continue;
    const spread = reach * (0.5 + Math.min(age, 1));
    const p = add(at, [(chance(i, 5) - 0.5) * spread, (chance(i, 6) - 0.5) * spread, (chance(i, 7) - 0.2) * reach + k * 3.2]);
    const soot = 0.2 + 0.14 * chance(i, 8);
    stage.sprites.push(...p, reach * (0.35 + 0.5 * k), soot, soot * 0.95, soot * 0.9, 0.6 * (1 - k) ** 1.3 * clamp(age / 0.5, 0, 1), KIND.PUFF);
    const fire = 1 - age / 1.1;
    if (fire > 0) stage.sprites.push(...p, reach * 0.6, 1, 0.3 + 0.42 * fire * chance(i, 9), 0.06, Math.min(fire * 1.4, 1), KIND.FIRE);
  }
}

/** A cloud of smoke: it billows up, hangs, thins out. */
function stageCloud(stage, battle, cloud, t) {
  const born = battle.tickEnd(cloud.tick), gone = battle.tickEnd(cloud.end);
  if (t < born || t > gone) return;
  const grown = 1 - Math.exp(-(t - born) * 3.5), thin = clamp((gone - t) / 1.2, 0, 1);
  const centre = [cloud.x, cloud.y, cloud.z].map((v) => v / UNIT.pos);
  const radius = battle.common.cloud_vox;
  for (let i = 0; i < CLOUD_PUFFS; i++) {
    const turn = i * 2.39996, rise = 1 - (2 * (i + 0.5)) / CLOUD_PUFFS, flat = Math.sqrt(1 - rise * rise);
    const far = radius * (0.25 + 0.42 * chance(i, cloud.tick)) * grown;
    const p = add(centre, [far * flat * Math.cos(turn + t * 0.05), far * flat * Math.sin(turn + t * 0.05), far * rise]);
    const grey = 0.74 + 0.12 * chance(i, 3);
    if (p[2] > 0.2) stage.sprites.push(...p, radius * 0.5 * grown, grey, grey, grey * 1.02, 0.4 * thin, KIND.PUFF);
  }
}

/** Flames on burning debris; most fires get one, so that many do not cost much. */
function stageFires(stage, fires, t) {
  const every = Math.ceil(fires.length / 160);
  for (let i = 0; i < fires.length; i += every) {
    const [x, y, z] = fires[i];
    const k = (t * 0.9 + chance(x, y, z)) % 1;
    const at = [x + 0.25 + 0.5 * chance(x, y, 1), y + 0.25 + 0.5 * chance(x, y, 2), z + 0.35 + k * 0.9];
    stage.sprites.push(...at, 0.42 * (1 - 0.6 * k), 1, 0.55 - 0.3 * k, 0.1, 0.75 * (1 - k), KIND.FIRE);
  }
}

/** Jets under a rising hull, steam from a venting one, smoke from one that overheated. */
function stageHull(stage, mech, pose, condition, t) {
  const { pos, yaw } = pose, [hx, , hz] = mech.half;
  const back = add(pos, [-Math.cos(yaw) * hx * 0.8, -Math.sin(yaw) * hx * 0.8, 0]);
  if (pose.rises > 0.8 && mech.half[2] < 1.2) {
    for (let i = 0; i < 4; i++) stage.sprites.push(...add(back, [0, 0, -hz * 0.2 - i * 0.28]), 0.4 - i * 0.06, 0.5, 0.75, 1, 0.7 - i * 0.15, KIND.GLOW);
  }
  const steam = condition.facts & FACT.VENTING ? 0.4 : 0, smoke = condition.facts & FACT.SHUT_DOWN ? 0.4 : 0;
  for (let i = 0; i < (steam || smoke ? 5 : 0); i++) {
    const k = (t * 0.8 + i / 5 + chance(mech.n, i)) % 1, grey = steam ? 0.92 : 0.3;
    const p = add(back, [(chance(i, mech.n) - 0.5) * hx, (chance(mech.n, i) - 0.5) * hx, hz * 0.6 + k * 1.8]);
    stage.sprites.push(...p, 0.25 + 0.5 * k, grey, grey, grey, (steam || smoke) * (1 - k), KIND.PUFF);
  }
}
