// What can be laid over the field: paths of the last seconds, the ground that a team has not seen, and the orders of packs.

const WAY_S = 10;
const FOGS = { "-1": "Fog", 0: "Fog: blue", 1: "Fog: red" };

/** Draw through points of the world; red is dashed. */
function strokeWay(overlay, scene, points, side, wide) {
  const { pen } = overlay, spots = points.map((point) => overlay.project(scene.matrix, point)).filter(Boolean);
  if (spots.length < 2) return;
  Object.assign(pen, { strokeStyle: css(TEAM_LIGHT[side], 0.9), lineWidth: wide });
  pen.setLineDash(side ? [5, 3] : []);
  pen.beginPath();
  for (const [x, y] of spots) pen.lineTo(x, y);
  pen.stroke();
  pen.setLineDash([]);
}

/** The way of every mech in the last seconds, of the selected one since the beginning; of the dead until they died. */
function drawTrails(overlay, scene, view, battle) {
  const last = battle.momentAt(view.t), back = Math.round(WAY_S / battle.decisionS);
  for (const { n, side } of battle.mechs) {
    const death = battle.deathOf(n), end = death ? Math.min(battle.momentAt(battle.tickEnd(death.tick)), last) : last, begin = n === view.selected ? 0 : Math.max(last - back, 0);
    if (!view.isShown(n) || end <= begin) continue;
    const points = Array.from({ length: end - begin + 1 }, (_, i) => battle.posAt(n, begin + i));
    strokeWay(overlay, scene, end === last && battle.isAlive(n, view.t) ? [...points, battle.pose(n, view.t).pos] : points, side, n === view.selected ? 2.5 : 1.5);
  }
}

/** Darken what a team does not see: most where it never looked, less where it did. */
function drawFog(overlay, scene, view, battle) {
  const sight = sightOf(battle), { pen } = overlay, m = battle.momentAt(view.t), { sizeX, sizeY } = sight;
  for (let y = 0; y < sizeY; y++) {
    for (let x = 0, begin = 0; x < sizeX; begin = x) {
      const known = sight.known(view.fog, m, y * sizeX + x);
      while (x < sizeX && sight.known(view.fog, m, y * sizeX + x) === known) x++;
      if (known === 2) continue;
      const corners = [[begin, y], [x, y], [x, y + 1], [begin, y + 1]].map(([u, v]) => overlay.project(scene.matrix, [u, v, 0]));
      if (corners.some((corner) => !corner)) continue;
      pen.fillStyle = known ? "rgba(8,10,14,0.35)" : "rgba(8,10,14,0.7)";
      pen.beginPath();
      for (const [u, v] of corners) pen.lineTo(u, v);
      pen.fill();
    }
  }
}

/** Kinds of orders and disciplines of fire by their numbers in the record. */
const ORDERS = ["free", "hold", "move", "attack", "defend", "screen", "regroup"], DISCIPLINES = ["", ", fires back only", ", holds fire"];

/** What a mech was last told, `{kind, place, target, discipline, t}`; undefined without an order. */
function orderOf(battle, n, m) {
  const [kind, x, y, target, , discipline, issued] = Array.from({ length: battle.arrays.orders.shape[2] }, (_, i) => battle.at("orders", n * battle.arrays.orders.shape[2] + i, m));
  return issued < 0 ? undefined : { kind: ORDERS[kind], place: [x / UNIT.pos, y / UNIT.pos], target, discipline, t: issued * battle.common.dt_s };
}

/** An order in words; empty where there is none. */
function orderText(battle, n, m) {
  const order = battle.arrays.orders && orderOf(battle, n, m);
  if (!order) return "";
  const at = order.target >= 0 ? ` ${battle.mechs[order.target].name}` : ["move", "defend", "screen", "attack"].includes(order.kind) ? ` (${order.place.map((v) => v.toFixed(0)).join(", ")})` : "";
  return `ordered at ${clockText(order.t)}: ${order.kind}${at}${DISCIPLINES[order.discipline]}`;
}

/** Draw what every mech was told: a line to the place or the enemy, and the word beside the mech. */
function drawOrders(overlay, scene, view, battle) {
  const m = battle.momentAt(view.t), { pen } = overlay;
  for (const { mech, pose } of scene.actors) {
    const order = orderOf(battle, mech.n, m), from = overlay.project(scene.matrix, pose.pos);
    if (!order || !from) continue;
    const goal = order.target >= 0 ? battle.pose(order.target, view.t).pos : ["move", "defend", "screen", "attack"].includes(order.kind) ? [...order.place, 0] : undefined;
    if (goal) strokeWay(overlay, scene, [pose.pos, goal], mech.side, 1.5);
    Object.assign(pen, { lineWidth: 3, strokeStyle: "rgba(10,13,17,0.85)", fillStyle: css(TEAM_LIGHT[mech.side]) });
    pen.strokeText(order.kind, from[0] + 8, from[1] + 12);
    pen.fillText(order.kind, from[0] + 8, from[1] + 12);
  }
}

/** All layers that are on, below bars and names. */
function drawLayers(overlay, scene, view, battle) {
  if (view.fog >= 0) drawFog(overlay, scene, view, battle);
  if (view.showTrails) drawTrails(overlay, scene, view, battle);
  if (view.showOrders && battle.arrays.orders) drawOrders(overlay, scene, view, battle);
}
