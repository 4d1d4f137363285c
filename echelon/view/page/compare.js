// Several battles: a summary of all, and two side by side from above on one clock.

/** Lines of the comparison: what it is called, its value in a battle. */
const COMPARED = [
  ["winner", (b) => b.about.outcome.winner], ["ended by", (b) => b.about.outcome.reason.replaceAll("_", " ")],
  ["map", (b) => mapText(b.about) || "–"], ["length, s", (b) => b.lengthS.toFixed(1)], ["score", (b) => b.about.outcome.score.map((s) => s.toFixed(1)).join(" : ")],
  ...["damage", "kills", "intercepts", "shutdowns", "knockdowns"].map((name) => [name, (b) => (b.about.outcome.stats[name] ?? []).map((v) => v.toFixed(0)).join(" : ") || "–"]),
  ["first kill", (b) => (b.deaths.length ? `${TEAMS[1 - b.mechs[b.deaths[0].victim].side]}, ${clockText(b.tickEnd(b.deaths[0].tick))}` : "none")],
  ["ahead in hit points", (b) => leadText(b, "hit points")], ["ahead in score", (b) => leadText(b, "score")],
];

function leadText(battle, what) {
  const lead = leadsOf(battle).find((one) => one.what === what);
  return lead ? `${TEAMS[lead.side]} from ${clockText(lead.t)}` : "nobody";
}

/** A table of every battle, pairs of a seed together. */
class Summary {
  constructor(root, on) {
    Object.assign(this, { root, on });
  }

  show(replay, battleOf, current) {
    const rows = pairsOf(replay.battles).flatMap(({ seed, battles }) => battles.map((i, k) => this.makeRow(battleOf(i), i, k ? "" : `${seed}`, battles.length, current)));
    const head = make("tr", "", ...["#", "battle", "score", "seed", "map", ""].map((text) => make("th", "", text)));
    this.root.replaceChildren(make("table", "", make("thead", "", head), make("tbody", "", ...rows)));
  }

  makeRow(battle, i, seed, pair, current) {
    const { about } = battle, open = make("button", "", headline(about, battle.lengthS)), beside = make("button", "", "side by side");
    for (const [button, act] of [[open, () => this.on.open(i)], [beside, () => this.on.compare(i)]]) {
      button.type = "button";
      button.addEventListener("click", act);
    }
    open.title = about.map?.position === undefined ? `made of seed ${about.map?.seed ?? "?"}` : `begins in position ${about.map.position}`;
    beside.disabled = i === current;
    beside.title = i === current ? "This is the battle that is open" : "Beside the battle that is open, on one clock";
    const row = make("tr", i === current ? "chosen" : "", make("td", "", `${i + 1}`), make("td", "", open),
      make("td", "", make("b", "blue", about.outcome.score[0].toFixed(1)), " : ", make("b", "red", about.outcome.score[1].toFixed(1))),
      make("td", "", seed && pair > 1 ? `${seed}, ${pair} battles` : seed), make("td", "", mapText(about).replace(/^map /, "")), make("td", "", beside));
    row.dataset.battle = i;
    return row;
  }
}

/** Two battles beside each other, seen from above, with what differs. */
class Compare {
  constructor(root) {
    this.root = root;
    this.sides = [...root.querySelectorAll("figure")].map((figure) => (
      { scene: new PlanScene(figure.querySelector("canvas")), words: figure.querySelector("figcaption") }));
    this.table = root.querySelector("tbody");
  }

  open(one, other) {
    [one, other].forEach((battle, i) => {
      Object.assign(this.sides[i], { battle, camera: new Camera(battle.size) });
      this.sides[i].scene.open(battle);
    });
    this.table.replaceChildren(...COMPARED.map(([label, value]) => {
      const [a, b] = [value(one), value(other)];
      return make("tr", a === b ? "same" : "differs", make("th", "", label), make("td", "", a), make("td", "", b));
    }));
  }

  draw(view) {
    for (const { scene, camera, battle, words } of this.sides) {
      const t = Math.min(view.t, battle.lengthS), m = battle.momentAt(t), alive = [0, 1].map((side) => battle.mechs.filter((mech) => mech.side === side && battle.isAlive(mech.n, t)).length);
      camera.aspect = scene.resize();
      camera.fit(true);
      camera.jump();
      scene.draw({ ...view, t, camera, selected: -1, isShown: () => true });
      words.textContent = `${headline(battle.about, battle.lengthS)} · now ${battle.score(0, m).toFixed(1)} : ${battle.score(1, m).toFixed(1)}, ${alive.join(" against ")} mechs`;
    }
  }
}
