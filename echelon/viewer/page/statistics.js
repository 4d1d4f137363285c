// What both teams did in the whole battle, side by side.

/** Entries of an outcome that are told by weapon or by class. */
const BY_WEAPON = ["shots", "hits", "damage", "kills"];
const BY_HULL = ["damage", "kills", "deaths"];
/** What entries are called whose names leave open whose they are, or what they count. */
const NAMES = {
  zone_s: "zone, mech-s", vent_s: "vented, mech-s", knockdowns: "knockdowns inflicted", leggings: "leggings inflicted",
  shutdowns: "shutdowns suffered", deaths: "deaths suffered", damage: "damage inflicted", intercepts: "missiles shot down",
};

class Statistics {
  constructor(root, onSelect) {
    this.root = root;
    this.accounts = new MechTable(onSelect);
  }

  open(battle) {
    const { stats } = battle.about.outcome, { weapons, hulls } = battle.common;
    const grouped = new Set();
    const tables = [[weapons, BY_WEAPON, "weapon"], [hulls, BY_HULL, "class"]].map(([rows, columns, title]) => {
      for (const row of rows) for (const column of columns) grouped.add(`${column}_${row}`);
      return this.makeTable(stats, rows, columns, title);
    });
    const plain = Object.keys(stats).filter((name) => !grouped.has(name) && name !== "bad_actions");
    const heading = make("h2", "", verdict(battle)), why = grounds(battle), whys = why ? [make("p", "lead", why)] : [];
    const rules = make("p", "summary", `rules version ${battle.common.env.rules_version}`);
    const leads = leadsOf(battle).filter(({ t }) => t > 0).map(({ what, side, t }) => make("p", "lead", make("b", TEAMS[side], TEAMS[side]), ` ahead in ${what} from ${clockText(t)} on${unrewarded(battle, side)}`));
    this.root.replaceChildren(heading, ...whys, ...leads, this.accounts.open(battle), make("h3", "", "Both teams"), ...plain.map((name) => this.makeRow(name, stats[name])), ...tables.filter(Boolean), rules);
  }

  /** One number of both teams, with bars that grow from the middle. */
  makeRow(name, [blue, red]) {
    const most = Math.max(blue, red, 1e-6);
    const bar = (team, value) => {
      const fill = make("i");
      fill.style.width = `${(value / most) * 100}%`;
      return make("span", `versus ${team}`, fill);
    };
    const label = make("span", "label", NAMES[name] ?? name.replaceAll("_", " "));
    return make("div", "duel", make("span", "value", figure(blue)), bar("blue", blue), label, bar("red", red), make("span", "value", figure(red)));
  }

  /** Numbers by weapon or by class, blue and red in each cell; nothing where the outcome has none. */
  makeTable(stats, rows, columns, title) {
    const told = columns.filter((column) => rows.some((row) => stats[`${column}_${row}`]));
    if (!told.length) return null;
    const head = make("tr", "", ...[title, ...told].map((text) => make("th", "", text)));
    const body = rows.map((row) => make("tr", "", make("td", "", row), ...told.map((column) => this.makeCell(stats[`${column}_${row}`]))));
    return make("table", "", make("thead", "", head), make("tbody", "", ...body));
  }

  makeCell(pair) {
    if (!pair || (!pair[0] && !pair[1])) return make("td", "none", "·");
    return make("td", "", make("b", "blue", figure(pair[0])), " : ", make("b", "red", figure(pair[1])));
  }
}

/** A number with a digit behind the point where it is not whole. */
function figure(value) {
  return Number.isInteger(value) || value >= 100 ? fixed(value, 0) : fixed(value, 1);
}
