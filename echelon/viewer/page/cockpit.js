// The cockpit of the selected mech: its radar, its gauges, its contact table.

const GAUGES = [
  ["hp", "hp", "Hit points"], ["leg_hp", "legs", "Leg hit points"], ["heat", "heat", "Heat, 1 shuts down"],
  ["stability_risk", "stability", "Stability"], ["sensor_quality", "sensors", "Sensor quality, 0.7 uses paint"], ["jam", "jam", "Jamming"],
];
const WARNINGS = [
  ["targeted", "targeted"], ["under_fire", "under fire"], ["painted", "painted"], ["incoming_missile", "incoming"],
  ["critical_heat", "critical heat"], ["shut_down", "shut down"], ["suppressed", "suppressed"], ["ecm", "ECM"], ["eccm", "ECCM"], ["in_zone", "in zone"],
];

const counted = (n, one, many) => `${n} ${n === 1 ? one : many}`;

class Cockpit {
  constructor(root, onSelect) {
    this.root = root;
    this.onSelect = onSelect;
    this.part = Object.fromEntries([...root.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
    this.radar = new Radar(this.part.radar);
    this.history = new History(this.part);
    this.observed = new ObservedPanel(this.part.observed, () => onSelect(this.shown));
    this.part.senses.addEventListener("toggle", () => onSelect(this.shown));
  }

  /** What its reader opened and chose. */
  get choices() {
    return [this.part.senses.open, this.observed.raw].join();
  }

  /** Show the cockpit of a mech at a moment, or that none is chosen; of the dead what came before their death. */
  show(battle, n, m, t) {
    const chosen = n >= 0;
    this.shown = n;
    this.part.empty.hidden = chosen;
    this.part.inside.hidden = !chosen;
    if (!chosen) return;
    const mech = battle.mechs[n], alive = battle.has(n, m, FACT.ALIVE);
    this.part.name.textContent = mech.name;
    this.part.name.className = mech.team;
    const suite = mech.suite === "none" ? "no suite" : mech.suite.replaceAll("_", " ");
    this.part.suite.textContent = suite;
    this.root.classList.toggle("dead", !alive);
    this.part.fate.hidden = alive;
    this.history.show(battle, n, t);
    if (!alive) return this.tellFate(battle, n);
    this.radar.draw(battle, n, m);
    this.showGauges(battle, n, m);
    this.showContacts(battle, n, m);
    if (this.part.senses.open) this.observed.show(battle, n, m);
  }

  /** Who killed it and when, in place of its instruments. */
  tellFate(battle, n) {
    this.part.contacts.replaceChildren();
    const death = battle.deathOf(n), killer = battle.mechs[death.killer];
    const by = killer ? `killed by ${killer.name}` : "burnt to death";
    this.part.fate.textContent = `${by} at ${clockText(battle.tickEnd(death.tick))}`;
  }

  showGauges(battle, n, m) {
    const values = GAUGES.map(([feature, label, title]) => this.makeGauge(label, title, this.level(battle, n, m, feature)));
    const timers = battle.ego(n, m, "cooldown").map((left, i) => [battle.mechs[n].cooldowns[i], left])
      .filter(([label]) => label).map(([label, left]) => this.makeTimer(label, left));
    this.part.gauges.replaceChildren(...values);
    this.part.cooldowns.replaceChildren(...timers);
    this.part.warnings.replaceChildren(...WARNINGS.map(([feature, text]) => {
      const on = battle.ego(n, m, feature)[0] > 0.5;
      return make("span", on ? "chip on" : "chip off", text);
    }));
  }

  /** A gauge's level in 0..1 and its text. */
  level(battle, n, m, feature) {
    const value = battle.ego(n, m, feature)[0], { hp, leg_hp: legs } = battle.mechs[n];
    const points = { hp, leg_hp: legs }[feature];
    if (points) return [value, `${Math.round(value * points)}`];
    if (feature === "stability_risk") return [1 - value, `${Math.round((1 - value) * 100)}`];
    const { scale } = battle.observations.columns.ego.get(feature);
    if (feature === "sensor_quality") return [value, (value * scale).toFixed(2)];
    return [feature === "heat" ? value / 2 : value, `${Math.round(value * 100)} %`];
  }

  makeGauge(label, title, [level, text]) {
    const fill = make("i", `fill ${label}`);
    fill.style.width = `${clamp(level, 0, 1) * 100}%`;
    const gauge = make("div", "gauge", make("span", "label", label), make("span", "bar", fill), make("span", "value", text));
    gauge.title = title;
    return gauge;
  }

  makeTimer(name, left) {
    const fill = make("i", "fill ready");
    fill.style.width = `${(1 - clamp(left, 0, 1)) * 100}%`;
    const timer = make("div", left > 0.02 ? "timer" : "timer is-ready", make("span", "label", name), make("span", "bar thin", fill));
    timer.title = left > 0.02 ? `${name} cools down` : `${name} ready`;
    return timer;
  }

  showContacts(battle, n, m) {
    const contacts = battle.contactsOf(n, m);
    const unseen = this.radar.unknown();
    const hostile = unseen.filter((other) => battle.mechs[other].side !== battle.mechs[n].side).length;
    this.part.summary.textContent = `${counted(contacts.length, "contact", "contacts")} · ${counted(hostile, "enemy", "enemies")} unseen`;
    this.part.contacts.replaceChildren(...contacts.map((contact) => this.makeContact(battle, n, m, contact)));
  }

  makeContact(battle, n, m, { slot, n: other, facts }) {
    const mech = battle.mechs[other], { hp, heat } = battle.condition(other, m);
    const { far, bearing } = bodyOffset(battle.posAt(n, m), battle.yawAt(n, m), battle.posAt(other, m));
    const known = facts & SHOWN.DETAIL, how = make("span", "ways", ...waysOf(battle, facts));
    const cells = [
      `${slot + 1}`, make("b", mech.team, mech.hull), how, far.toFixed(0),
      `${Math.abs(bearing).toFixed(0)}°${Math.abs(bearing) < 0.5 || Math.abs(bearing) > 179.5 ? "" : bearing > 0 ? "R" : "L"}`,
      known ? `${Math.round(hp * 100)}` : "–", known ? `${Math.round(heat * 100)}` : "–",
    ];
    const row = make("tr", facts & SHOWN.INTEL ? "intel" : "", ...cells.map((cell) => make("td", "", cell)));
    Object.assign(row.dataset, { mech: other, slot, facts });
    row.title = `${mech.name} (the policy does not observe this name)`;
    row.addEventListener("click", () => this.onSelect(other));
    return row;
  }
}

/** Ways to know of a contact: bit, its chip, what it means. */
const WAYS = [
  [SHOWN.SIGHT, "sight", "line of sight"], [SHOWN.RADAR, "radar", "within the range of its radar"], [SHOWN.PAINT, "paint", "painted by its pack"],
  [SHOWN.BLOOM, "bloom", "too hot, or jamming"], [SHOWN.INTEL, "intel", "reported by packmates"],
];

/** A chip for each way in which a contact is known. */
function waysOf(battle, facts) {
  const chips = WAYS.filter(([bit]) => facts & bit).map(([, text, title]) => chip(text, title, ""));
  if (!chips.length) chips.push(chip("known", "the config makes all contacts visible", ""));
  return facts & SHOWN.PAINTED ? [...chips, chip("◎", "painted by its pack", "bad")] : chips;
}
