// What the selected mech was given to observe, stream by stream, in units of the game or as the policy reads it.

const OBSERVED_LEVELS = 4095;
/** Columns of a table of objects; the rest of an object's numbers stands below them. */
const OBJECT_COLUMNS = ["rel_pos", "hp", "heat", "stability"];
const OBJECT_HEADS = [["#", "slot"], ["class", ""], ["ahead", "vox"], ["left", "vox"], ["up", "vox"], ["hp", "%"], ["heat", "%"], ["stab", "stability, %"]];
/** What is said in other words: the class of an object is its name, how it stands to the mech its colour. */
const TOLD_ELSEWHERE = new Set(["hull", "friendly", "hostile"]);
const RENAMED = { rel_vel: "moves", rel_yaw_sin_cos: "faces", yaw_sin_cos: "yaw", lead_pitch: "lead", target_rel_pos: "its target", hit_from: "hit from" };
/** A feature with more parts names those that are not 0; fewer are told in their order. */
const FEW_PARTS = 4;
const CELL_PX = 11, HEIGHT_PX = 8;

/** What the mechs of a battle observed, by stream and feature, in the unit of the layout. */
class Observations {
  constructor(battle, described) {
    Object.assign(this, { battle, described });
    this.columns = Object.fromEntries(Object.entries(described).map(([stream, features]) => {
      let first = 0;
      return [stream, new Map(features.map((feature) => [feature.name, { ...feature, first: (first += feature.width) - feature.width }]))];
    }));
  }

  /** Whether the replay kept a stream. */
  has(stream) {
    return `observed_${stream}` in this.battle.arrays;
  }

  features(stream) {
    return [...this.columns[stream].values()];
  }

  /** Numbers of a feature: of row `row` of a stream with rows. Of the ego stream every replay has them, if coarser. */
  values(stream, name, n, m, row = 0) {
    const { first, width, low, high } = this.columns[stream].get(name);
    if (stream === "ego" && !this.has("ego")) return this.battle.ego(n, m, name);
    const array = `observed_${stream}`, { shape } = this.battle.arrays[array], wide = shape.at(-1), rows = shape.length > 3 ? shape[2] : 1;
    return Array.from({ length: width }, (_, i) => low + ((high - low) * this.battle.at(array, (n * rows + row) * wide + first + i, m)) / OBSERVED_LEVELS);
  }

  /** Filled rows of a stream. */
  filled(stream, n, m) {
    const rows = this.battle.arrays[`observed_${stream}`].shape[2];
    return Array.from({ length: rows }, (_, row) => row).filter((row) => this.battle.at(`observed_${stream}_mask`, n * rows + row, m));
  }

  /** The ground around a mech: rows from ahead, columns from the left, 1 where it cannot walk. */
  around(n, m) {
    const [, , rows, columns] = this.battle.arrays.observed_local_map.shape;
    return Array.from({ length: rows }, (_, i) => Array.from({ length: columns }, (_, j) => (
      this.battle.at("observed_local_map", (n * rows + rows - 1 - i) * columns + columns - 1 - j, m))));
  }
}

const tidy = (x, digits) => { const text = fixed(x, digits); return text.includes(".") ? text.replace(/\.?0+$/, "") : text; };

const signed = (text) => text.replace("-", "−");

/** Numbers of a feature in words. */
function wordsOf(feature, values, raw) {
  if (raw) return values.map((x) => tidy(x, 3)).join(" ");
  if (isAngle(feature)) return feature.name.startsWith("rel") ? bearingText(degreesOf(values)) : `${signed(tidy(degreesOf(values), 0))}°`;
  if (feature.unit === "one-hot" || feature.unit === "flag") {
    const on = feature.parts.filter((_, i) => values[i] > 0.5).map((part) => part.replaceAll("_", " "));
    return feature.parts.length ? on.join(", ") || "none" : values[0] > 0.5 ? "yes" : "no";
  }
  const scales = values.map((_, i) => (Array.isArray(feature.scale) ? feature.scale[i] : feature.scale));
  const digits = digitsOf(feature), number = (x, i) => signed(tidy(x * scales[i], digits)), unit = `${["", "°"].includes(feature.shown) ? "" : " "}${feature.shown}`;
  if (feature.parts.length > FEW_PARTS) return feature.parts.map((part, i) => (values[i] ? `${part.replaceAll("_", " ")} ${number(values[i], i)}${unit}` : "")).filter(Boolean).join(", ") || "none";
  return `${values.map(number).join(" ")}${unit}`;
}

const digitsOf = ({ shown }) => (shown === "%" || shown === "°" ? 0 : shown ? 1 : 2);
const isAngle = (feature) => feature.parts.join() === "sin,cos";
const degreesOf = ([sin, cos]) => (Math.atan2(sin, cos) * 180) / Math.PI;

/** An angle from straight ahead, degrees to the left. */
function bearingText(turn) {
  const degrees = Math.round(turn);
  return Math.abs(degrees) % 180 === 0 ? `${Math.abs(degrees)}°` : `${Math.abs(degrees)}° ${degrees > 0 ? "left" : "right"}`;
}

/** What a feature is, and what was given of it, for who points at it. */
function tooltip(feature, values) {
  const parts = feature.parts.length ? ` (${feature.parts.join(", ")})` : "", unit = feature.unit ? ` of ${feature.unit}` : "";
  const off = feature.off ? "; always 0 in these battles: a switch is off" : "";
  return `${feature.name}${parts}: ${values.map((x) => tidy(x, 3)).join(" ")}, within ${feature.low} .. ${feature.high}${unit}. ${feature.meaning}${off}`;
}

/** The part of the cockpit that shows what its mech observes. */
class ObservedPanel {
  constructor(root, onChange) {
    Object.assign(this, { root, raw: false });
    root.addEventListener("change", (event) => {
      this.raw = event.target.checked;
      onChange();
    });
  }

  show(battle, n, m) {
    const seen = battle.observations, focus = document.activeElement?.closest?.(".as-given") !== null && this.root.contains(document.activeElement);
    Object.assign(this, { battle, seen, n, m });
    const sections = [
      ["contacts", "Contacts", () => this.objects("contacts", (row) => this.battle.contactsOf(n, m).find(({ slot }) => slot === row)?.n)],
      ["squad", "Comrades", () => this.objects("squad", (row) => this.battle.mechs[n].squad[row])],
      ["comms", "Messages from its pack", () => this.messages()],
      ["local_map", "Ground around it", () => this.ground()],
      ["ego", "Itself and the zone", () => this.itself()],
    ].map(([stream, title, fill]) => (stream === "ego" || seen.has(stream) ? make("section", "", make("h3", "", title), ...fill()) : null));
    this.root.replaceChildren(this.choice(), ...this.lacks(), ...sections.filter(Boolean));
    if (focus) this.root.querySelector(".as-given input").focus();
  }

  choice() {
    const box = document.createElement("input");
    Object.assign(box, { type: "checkbox", checked: this.raw });
    const label = make("label", "as-given", box, "numbers as observed by the policy");
    label.title = "Scaled as env.describe() documents; otherwise in voxels, seconds and percent";
    return label;
  }

  /** What this replay did not keep. */
  lacks() {
    const missing = [["contacts", "contacts"], ["squad", "comrades"], ["comms", "messages"], ["local_map", "the ground around it"]];
    const names = missing.filter(([stream]) => !this.seen.has(stream)).map(([, name]) => name);
    if (!names.length) return [];
    const why = names.length === missing.length ? "record them with play --replay-observations" : "their layout differs from this version's";
    return [make("p", "lack", `Not in this replay: ${names.join(", ")}, as observed; ${why}.`)];
  }

  words(stream, feature, row) {
    const values = this.seen.values(stream, feature.name, this.n, this.m, row);
    return { values, text: wordsOf(feature, values, this.raw), title: tooltip(feature, values) };
  }

  /** Contacts or comrades: a row each, empty slots left out. `who` tells the mech in a slot. */
  objects(stream, who) {
    const slots = this.battle.arrays[`observed_${stream}`].shape[2], rows = this.seen.filled(stream, this.n, this.m);
    const told = make("p", "summary", `${rows.length} of ${counted(slots, "slot", "slots")} filled`);
    if (!rows.length) return [told];
    const head = make("tr", "", ...OBJECT_HEADS.map(([text, title]) => Object.assign(make("th", "", text), { title, scope: "col" })));
    const body = rows.map((row) => this.object(stream, row, who(row)));
    return [told, make("table", "objects", make("thead", "", head), make("tbody", "", ...body))];
  }

  object(stream, row, other) {
    const of = (name) => this.seen.values(stream, name, this.n, this.m, row), flag = (name) => this.seen.columns[stream].has(name) && of(name)[0] > 0.5;
    const enemy = flag("hostile"), side = this.battle.mechs[this.n].side, team = TEAMS[enemy ? 1 - side : side];
    const kind = wordsOf(this.seen.columns[stream].get("hull"), of("hull"), false);
    const cells = [make("td", "", `${row + 1}`), make("td", "", make("b", team, kind))];
    for (const name of OBJECT_COLUMNS) cells.push(...this.numbers(stream, name, row));
    const more = make("td", "more", ...this.more(stream, row));
    const line = make("tr", flag("intel") ? "intel" : "", ...cells, more);
    Object.assign(line.dataset, { slot: row, ...(other === undefined ? {} : { mech: other }) });
    if (other !== undefined) cells[1].title = `${this.battle.mechs[other].name} (the policy does not observe this name)`;
    return line;
  }

  /** Cells of a feature, one for each of its numbers. */
  numbers(stream, name, row) {
    const feature = this.seen.columns[stream].get(name), { values, title } = this.words(stream, feature, row), hidden = this.isHidden(stream, name, row);
    return values.map((x) => {
      const text = this.raw ? tidy(x, 2) : hidden ? "–" : signed(tidy(x * feature.scale, feature.shown === "%" ? 0 : 1));
      return Object.assign(make("td", "", text), { title: hidden ? `${title} (0 here: not shown to it)` : title });
    });
  }

  /** Whether a number is 0 because the mech is not shown it. */
  isHidden(stream, name, row) {
    const of = (flag) => this.seen.values(stream, flag, this.n, this.m, row)[0] > 0.5;
    if (name === "rel_pos") return false;
    if (stream === "contacts") return !of("detail");
    return !of("alive") || this.battle.mechs[this.n].squad_detail < (name === "stability" ? 2 : 1);
  }

  /** What else is known of an object: numbers in words, flags that are set as chips. */
  more(stream, row) {
    const parts = [], chips = [];
    for (const feature of this.seen.features(stream)) {
      if (OBJECT_COLUMNS.includes(feature.name) || TOLD_ELSEWHERE.has(feature.name) || feature.off) continue;
      const { values, text, title } = this.words(stream, feature, row), name = RENAMED[feature.name] ?? feature.name.replaceAll("_", " ");
      if (feature.unit === "flag") {
        if (feature.name === "alive") chips.push(...(values[0] > 0.5 ? [] : [chip("dead", title, "bad")]));
        else if (values[0] > 0.5) chips.push(chip(name, title, ""));
      } else if (values.some((x) => Math.abs(x) > 1e-3)) parts.push(Object.assign(make("span", "", `${name} ${text}`), { title }));
    }
    return [...parts, ...chips];
  }

  /** What each packmate said; one's own row is empty. */
  messages() {
    const { n, m, battle } = this, pack = battle.mechs.filter((mech) => mech.pack === battle.mechs[n].pack), [feature] = this.seen.features("comms");
    const rows = pack.map((mech, row) => [mech, this.seen.values("comms", feature.name, n, m, row)]).filter(([mech]) => mech.n !== n);
    if (!rows.length) return [make("p", "summary", "its pack has no other mech")];
    if (feature.off) return [make("p", "summary", "messages are switched off in these battles")];
    return [make("table", "heard", make("tbody", "", ...rows.map(([mech, values]) => {
      const silent = values.every((x) => Math.abs(x) < 1e-3);
      const line = make("tr", "", make("td", "", make("b", mech.team, mech.tag)), make("td", silent ? "none" : "", silent ? "silent" : values.map((x) => fixed(x, 1)).join(" ")));
      line.title = tooltip(feature, values);
      return line;
    })))];
  }

  /** Where it cannot walk, its nose up; and the heights of the whole map, north up. */
  ground() {
    const cells = this.seen.around(this.n, this.m), reach = (cells.length - 1) / 2, blocked = cells.flat().filter(Boolean).length;
    const near = picture(cells.length, CELL_PX, `${blocked} of ${cells.length ** 2} cells blocked, nose up`);
    const far = picture(16, HEIGHT_PX, "heights of the whole map, the same for both teams all the battle");
    requestAnimationFrame(() => {
      drawAround(near, cells);
      drawHeights(far, this.battle, this.n, this.m);
    });
    const told = (canvas, text) => make("figure", "", canvas, make("figcaption", "", text));
    return [make("div", "grounds", told(near, `${reach} vox around, nose up; filled: it cannot walk there`), told(far, "heights of the map: bright is high"))];
  }

  itself() {
    const table = this.seen.features("ego").map((feature) => {
      const { text, title } = this.words("ego", feature, 0), name = RENAMED[feature.name] ?? feature.name.replaceAll("_", " ");
      const named = this.raw || (feature.unit !== "one-hot" && feature.parts.length <= FEW_PARTS && !isAngle(feature));
      const parts = named && feature.parts.length ? `, ${feature.parts.join(" ").replaceAll("_", " ")}` : "";
      const line = make("tr", feature.off ? "off" : "", make("td", "", name, make("small", "", parts)), make("td", "", text));
      line.title = title;
      return line;
    });
    return [make("table", "itself", make("tbody", "", ...table))];
  }
}

function picture(cells, px, label) {
  const canvas = make("canvas", ""), side = cells * px;
  Object.assign(canvas, { width: side, height: side, role: "img", ariaLabel: label });
  canvas.style.width = canvas.style.height = `${side}px`;
  return canvas;
}

function drawAround(canvas, cells) {
  const pen = canvas.getContext("2d"), style = getComputedStyle(canvas), middle = (cells.length - 1) / 2;
  cells.forEach((row, y) => row.forEach((blocked, x) => {
    pen.fillStyle = style.getPropertyValue(blocked ? "--dim" : "--raised");
    pen.fillRect(x * CELL_PX, y * CELL_PX, CELL_PX - 1, CELL_PX - 1);
  }));
  pen.fillStyle = style.getPropertyValue("--text");
  pen.beginPath();
  for (const [dx, dy] of [[0, -6], [5, 5], [0, 2], [-5, 5]]) pen.lineTo((middle + 0.5) * CELL_PX + dx - 0.5, (middle + 0.5) * CELL_PX + dy);
  pen.fill();
}

function drawHeights(canvas, battle, n, m) {
  const pen = canvas.getContext("2d"), heights = battle.arrays.observed_telemetry, [, rows, columns] = heights.shape;
  for (let y = 0; y < rows; y++) {
    for (let x = 0; x < columns; x++) {
      const light = 40 + 215 * Math.sqrt(heights.data[y * columns + x] / OBSERVED_LEVELS);
      pen.fillStyle = `rgb(${light},${light},${light})`;
      pen.fillRect(x * HEIGHT_PX, (rows - 1 - y) * HEIGHT_PX, HEIGHT_PX, HEIGHT_PX);
    }
  }
  const [x, y] = battle.posAt(n, m);
  pen.beginPath();
  pen.arc((x / battle.size[0]) * canvas.width, (1 - y / battle.size[1]) * canvas.height, 4, 0, 7);
  pen.fillStyle = css(TEAM_COLOURS[battle.mechs[n].side]);
  pen.fill();
  pen.strokeStyle = "#fff";
  pen.stroke();
}
