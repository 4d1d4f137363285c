// Preferred targets of the packs of both teams.

/** For every pack at a moment: `{pack, side, label, members, targets: [[mech, count], ...]}`, most wanted first. */
function packFocus(battle, m) {
  const seen = [0, 0];
  return battle.packTeam.map((side, pack) => {
    const members = battle.mechs.filter((mech) => mech.pack === pack && battle.has(mech.n, m, FACT.ALIVE));
    const targets = summed(members.filter((mech) => battle.at("focus", mech.n, m) >= 0), (mech) => battle.at("focus", mech.n, m), () => 1);
    return { pack, side, place: seen[side]++, members, label: `${TEAMS[side]} pack ${seen[side]}`, targets: targets.map(([n, count]) => [n, count]) };
  });
}

/** Dashes that tell the packs of a team apart. */
const PACK_DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

/** Draw a line from every mech to its preferred target, and rings around painted mechs. */
function drawIntent(overlay, scene, view, battle) {
  const { pen } = overlay, m = battle.momentAt(view.t), at = new Map(scene.actors.map(({ mech, pose }) => [mech.n, overlay.project(scene.matrix, pose.pos)]));
  for (const { side, place, members } of packFocus(battle, m)) {
    pen.setLineDash(PACK_DASHES[place % PACK_DASHES.length]);
    for (const mech of members) {
      const from = at.get(mech.n), to = at.get(battle.at("focus", mech.n, m));
      if (!from || !to) continue;
      const far = Math.hypot(to[0] - from[0], to[1] - from[1]);
      if (far < 14) continue;
      const end = [to[0] + ((from[0] - to[0]) * 9) / far, to[1] + ((from[1] - to[1]) * 9) / far];
      for (const [colour, wide] of [["rgba(10,13,17,0.7)", 4], [css(TEAM_LIGHT[side]), 1.75]]) {
        Object.assign(pen, { strokeStyle: colour, lineWidth: wide });
        pen.beginPath();
        pen.moveTo(from[0], from[1]);
        pen.lineTo(end[0], end[1]);
        pen.stroke();
      }
      drawHead(pen, from, end, css(TEAM_LIGHT[side]));
    }
  }
  pen.setLineDash([]);
}

function drawHead(pen, from, to, colour) {
  const turn = Math.atan2(to[1] - from[1], to[0] - from[0]);
  pen.fillStyle = colour;
  pen.beginPath();
  for (const [far, off] of [[0, 0], [9, 0.4], [9, -0.4]]) pen.lineTo(to[0] - far * Math.cos(turn + off), to[1] - far * Math.sin(turn + off));
  pen.fill();
}

/** The same in words, beside the field. */
class IntentBox {
  constructor(root) {
    this.root = root;
  }

  show(battle, m, on) {
    this.root.hidden = !on;
    const key = on && `${battle.about.seed} ${m}`;
    if (!on || key === this.key) return;
    this.key = key;
    const rows = packFocus(battle, m).map((pack) => this.makeRow(battle, pack, m));
    this.root.replaceChildren(make("h2", "", `Focus at ${clockText(m * battle.decisionS)}`), ...rows);
  }

  makeRow(battle, { side, label, members, targets }, m) {
    const free = members.length - targets.reduce((sum, [, count]) => sum + count, 0);
    const words = targets.map(([n, count]) => make("span", "", make("b", battle.mechs[n].team, battle.mechs[n].name), ` ×${count}`));
    if (!members.length) words.push(make("span", "", "all dead"));
    else if (free) words.push(make("span", "", `no preference ×${free}`));
    const painted = battle.mechs.filter((mech) => mech.side !== side && battle.has(mech.n, m, FACT.ALIVE) && members.some((own) => (battle.at("paint", mech.n, m) >> own.pack) & 1));
    if (painted.length) words.push(make("span", "painted", `◎ ${painted.map((mech) => mech.tag).join(" ")}`));
    const row = make("p", "", make("b", TEAMS[side], label), ...words);
    row.dataset.pack = label;
    return row;
  }
}
