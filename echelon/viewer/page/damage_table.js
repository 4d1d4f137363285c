// What each mech did and suffered in the whole battle, and since when its team was ahead.

/** A list by mech: points dealt to enemies and by which weapons, taken, kills, assists, intercepts, seconds in the zone. */
function accountsOf(battle) {
  const rows = battle.mechs.map((mech) => (
    { n: mech.n, dealt: 0, taken: 0, kills: 0, assists: 0, intercepts: 0, zone: 0, weapons: new Map() }));
  for (const { shooter, target, damage, weapon } of battle.harms) {
    const points = damage / UNIT.points, row = rows[shooter];
    rows[target].taken += points;
    if (battle.mechs[shooter].side === battle.mechs[target].side) continue;
    row.dealt += points;
    row.weapons.set(weapon, (row.weapons.get(weapon) ?? 0) + points);
  }
  for (const death of battle.deaths) {
    if (death.killer < 0 || battle.mechs[death.killer].side === battle.mechs[death.victim].side) continue;
    rows[death.killer].kills++;
    const painter = painterFor(battle, death);
    if (painter >= 0 && painter !== death.killer) rows[painter].assists++;
  }
  for (const flight of battle.flights) if (flight.by >= 0) rows[flight.by].intercepts++;
  for (const row of rows) {
    for (let m = 1; m < battle.moments; m++) if (battle.has(row.n, m, FACT.IN_ZONE)) row.zone += battle.decisionS;
  }
  return rows;
}

/** Who had last painted a victim for the pack of its killer, or -1. */
function painterFor(battle, { tick, victim, killer }) {
  const { pack } = battle.mechs[killer], before = Math.floor(tick / battle.common.decision_repeat);
  const hot = [before, before + 1].some((m) => m < battle.moments && (battle.at("paint", victim, m) >> pack) & 1);
  if (!hot) return -1;
  const laid = battle.beams.filter((beam) => beam.target === victim && beam.tick <= tick
    && battle.mechs[beam.shooter].pack === pack && battle.weapon(beam.weapon).effect === "paint");
  return laid.at(-1)?.shooter ?? -1;
}

/** Weapons of an account, most first: `[name, points]`; of a record without them, nothing. */
function weaponsOf(battle, row) {
  return [...row.weapons].filter(([weapon]) => weapon >= 0).sort((a, b) => b[1] - a[1])
    .map(([weapon, points]) => [battle.weaponName(weapon), points]);
}

const ACCOUNT_COLUMNS = [
  ["mech", "Mech", "its team, class and place"], ["dealt", "Dealt", "hit points taken from enemies"],
  ["weapons", "With", "the weapons that dealt most"], ["taken", "Taken", "hit points lost to mechs of either team"],
  ["kills", "K", "kills"], ["assists", "A", "assists: kills by packmates of what it had painted"],
  ["intercepts", "AMS", "missiles its AMS destroyed"], ["zone", "Zone", "seconds in the zone"],
];

/** The accounts of all mechs as a table that can be sorted; a row selects its mech. */
class MechTable {
  constructor(onSelect) {
    this.onSelect = onSelect;
    this.order = { key: "dealt", down: true };
  }

  open(battle) {
    this.battle = battle;
    this.accounts = accountsOf(battle);
    this.heads = ACCOUNT_COLUMNS.map(([key, text, title]) => this.makeHead(key, text, title));
    this.body = make("tbody", "");
    this.rows = new Map(this.accounts.map((row) => [row.n, this.makeRow(row)]));
    this.element = make("table", "accounts", make("thead", "", make("tr", "", ...this.heads)), this.body);
    this.sort();
    return this.element;
  }

  makeHead(key, text, title) {
    const button = make("button", "", text);
    button.type = "button";
    button.title = title;
    button.dataset.key = key;
    button.addEventListener("click", () => {
      this.order = { key, down: this.order.key === key ? !this.order.down : key !== "mech" };
      this.sort();
    });
    const head = make("th", "", button);
    head.scope = "col";
    return head;
  }

  makeRow(row) {
    const mech = this.battle.mechs[row.n], weapons = weaponsOf(this.battle, row);
    const told = weapons.slice(0, 2).map(([name, points]) => `${name} ${points.toFixed(0)}`).join(", ");
    const cells = [
      make("b", mech.team, mech.tag), row.dealt.toFixed(0), told || (row.dealt ? "not recorded" : "·"), row.taken.toFixed(0),
      ...["kills", "assists", "intercepts"].map((key) => (row[key] ? `${row[key]}` : "·")), row.zone.toFixed(0),
    ];
    const line = make("tr", row.dealt ? "" : "idle", ...cells.map((cell) => make("td", "", cell)));
    line.dataset.mech = row.n;
    line.tabIndex = 0;
    line.title = [mech.name, ...weapons.map(([name, points]) => `${name} ${points.toFixed(0)}`)].join(", ");
    line.addEventListener("click", () => this.onSelect(row.n));
    line.addEventListener("keydown", (event) => event.key === "Enter" && this.onSelect(row.n));
    return line;
  }

  sort() {
    const { key, down } = this.order, value = (row) => ({ mech: row.n, weapons: row.dealt })[key] ?? row[key];
    const ordered = [...this.accounts].sort((a, b) => (down ? value(b) - value(a) : value(a) - value(b)) || a.n - b.n);
    this.body.replaceChildren(...ordered.map((row) => this.rows.get(row.n)));
    ACCOUNT_COLUMNS.forEach(([name], i) => this.heads[i].setAttribute("aria-sort", name !== key ? "none" : down ? "descending" : "ascending"));
  }

  mark(selected) {
    for (const [n, row] of this.rows) row.classList.toggle("chosen", n === selected);
  }
}

/** Share of its hit points that a team has left at a moment. */
function hpShare(battle, side, m) {
  const own = battle.mechs.filter((mech) => mech.side === side);
  const left = own.reduce((sum, mech) => sum + battle.at("hp", mech.n, m) / UNIT.points, 0);
  return left / own.reduce((sum, mech) => sum + mech.hp, 0);
}

/** Who led at the end, in hit points and in score, and since which moment without a break: `{what, side, t}`. */
function leadsOf(battle) {
  const measures = [["hit points", (side, m) => hpShare(battle, side, m), 0.005], ["score", (side, m) => battle.score(side, m), 0.05]];
  return measures.flatMap(([what, value, tie]) => {
    const lead = (m) => value(0, m) - value(1, m), last = lead(battle.decisions);
    if (Math.abs(last) <= tie) return [];
    let m = battle.decisions;
    while (m > 0 && lead(m - 1) * Math.sign(last) > tie) m--;
    return [{ what, side: last > 0 ? 0 : 1, t: m * battle.decisionS }];
  });
}
