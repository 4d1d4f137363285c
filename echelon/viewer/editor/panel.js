// The fields beside the map: of what is selected, of the objective, and the settings that the map does not show.

/** The words of one field, and what a field of its kind takes. */
const UNIT_FIELDS = [
  ["team", "team", { choices: TEAMS }], ["hull", "hull", { choices: Object.keys(facts.hulls) }],
  ["x", "x, vox", { step: 0.5, min: 0 }], ["y", "y, vox", { step: 0.5, min: 0 }],
  ["bottom", "bottom, vox (-1: ground)", { step: 1, min: -1, max: 31 }], ["facing_deg", "facing, degrees", { step: 5, min: -360, max: 360 }],
  ["hp", "hp, share", { step: 0.05, min: 0.001, max: 1 }], ["leg_hp", "legs, share", { step: 0.05, min: 0, max: 1 }],
  ["heat", "heat, share", { step: 0.05, min: 0, max: 2 }],
];
const SPAN = { step: 1, min: 0, max: 500 };
const OBJECTIVE_FIELDS = {
  attackers: ["who has to act", { choices: TEAMS }], seconds: ["seconds (0: all)", { step: 1, min: 0 }],
  control_s: ["control, s (0: rules)", { step: 1, min: 0 }], mech: ["mech", {}], mechs: ["mechs to arrive", { step: 1, min: 1, max: 20 }],
};

function element(name, values = {}, ...children) {
  const made = Object.assign(document.createElement(name), values);
  made.append(...children);
  return made;
}

/** A choice among words; `told` stays a choice even where it is none. */
function choice(words, told) {
  const all = words.includes(told) || told === undefined ? words : [...words, told];
  const made = element("select", {}, ...all.map((word) => element("option", { value: word, textContent: word || "–" })));
  if (told !== undefined) made.value = told;
  return made;
}

/** A labelled field; `take` gets its new value. */
function field(id, words, value, kind, take) {
  const input = kind.choices ? choice(kind.choices, value) : element("input", { type: "number", value, step: "any", min: kind.min ?? "", max: kind.max ?? "" });
  if (!kind.choices) input.addEventListener("keydown", (event) => stepBy(event, input, kind));
  input.id = id;
  input.addEventListener("change", () => {
    const found = kind.choices ? input.value : Number(input.value);
    if (kind.choices || (input.value !== "" && Number.isFinite(found))) take(found);
  });
  return element("label", {}, words, input);
}

/** Arrows step a number by what is usual for it; a person may type any. */
function stepBy(event, input, kind) {
  const way = { ArrowUp: 1, ArrowDown: -1 }[event.key];
  if (!way) return;
  event.preventDefault();
  input.value = clamp(Number((Number(input.value) + way * kind.step).toFixed(6)), kind.min ?? -Infinity, kind.max ?? Infinity);
  input.dispatchEvent(new Event("change"));
}

class Panel {
  constructor(edited, changed) {
    Object.assign(this, { edited, changed, shown: "" });
    const settings = document.getElementById("settings");
    settings.addEventListener("change", () => this.takeSettings(settings));
  }

  /** Fields as they are now; those that stay the same are not made anew, so that a key pressed in one goes on there. */
  show() {
    const { edited } = this, now = JSON.stringify([edited.selected, edited.values]);
    if (now === this.shown) return;
    this.shown = now;
    const focused = document.activeElement?.id;
    document.querySelector("#selected .fields").replaceChildren(...this.fieldsOfSelected());
    document.querySelector("#objective .fields").replaceChildren(...this.fieldsOfObjective());
    document.getElementById("preset").value = edited.values.preset;
    const settings = document.getElementById("settings"), own = edited.settings;
    if (document.activeElement !== settings) settings.value = Object.keys(own).length ? JSON.stringify(own, null, 1) : "";
    if (focused) document.getElementById(focused)?.focus();
  }

  change(make) {
    this.edited.remember();
    make();
    this.changed();
  }

  fieldsOfSelected() {
    const { edited } = this, { kind, at } = edited.selected ?? {};
    if (!kind) return [element("p", { className: "note", textContent: "nothing: click a mech, a box, or a zone's name or rim" })];
    const found = kind === "unit" ? this.fieldsOfUnit(at) : kind === "box" ? this.fieldsOfBox() : this.fieldsOfZone(kind);
    if (kind === "zone" || kind === "second") return found;
    const remove = element("button", { type: "button", id: "remove", textContent: "Delete" });
    remove.addEventListener("click", () => {
      edited.remove();
      this.changed();
    });
    return [...found, remove];
  }

  fieldsOfUnit(at) {
    const { edited } = this, told = { ...UNIT_DEFAULTS, ...edited.row };
    const fields = UNIT_FIELDS.filter(([name]) => told[name] !== undefined).map(([name, words, kind]) =>
      field(`unit-${name}`, words, told[name], kind, (value) => this.change(() => edited.setUnit({ [name]: value }))));
    return [element("strong", { textContent: edited.nameOf(at) }), ...fields];
  }

  fieldsOfBox() {
    const { edited } = this, { low, high, material = "solid" } = edited.row;
    const corner = (name, axis, words) =>
      field(`box-${name}-${axis}`, words, edited.row[name][axis], SPAN, (value) =>
        this.change(() => edited.setBox({ [name]: (name === "low" ? low : high).with(axis, Math.round(value)) })));
    return [
      field("box-material", "material", material, { choices: facts.materials }, (value) => this.change(() => edited.setBox({ material: value }))),
      corner("low", 0, "from x"), corner("high", 0, "to x"), corner("low", 1, "from y"), corner("high", 1, "to y"),
      corner("low", 2, "bottom, vox"), corner("high", 2, "top, vox"),
    ];
  }

  fieldsOfZone(kind) {
    const { edited } = this, circle = edited.circle(kind);
    const fields = [["x, column", SPAN], ["y, column", SPAN], ["radius, vox", { step: 0.5, min: 1, max: 500 }]].map(([words, limits], place) =>
      field(`zone-${place}`, words, circle[place], limits, (value) => this.change(() => edited.setCircle(kind, circle.with(place, value)))));
    return [element("strong", { textContent: kind === "second" ? "second zone" : "zone" }), ...fields];
  }

  fieldsOfObjective() {
    const { edited } = this, told = edited.objective;
    const set = (name) => (value) => this.change(() => edited.setObjective({ [name]: value }));
    const kind = field("objective-kind", "kind", told.kind, { choices: Object.keys(facts.objectives) }, set("kind"));
    const own = facts.objectives[told.kind].filter((name) => name in OBJECTIVE_FIELDS).map((name) => {
      const [words, limits] = OBJECTIVE_FIELDS[name];
      return field(`objective-${name}`, words, told[name], name === "mech" ? { choices: ["", ...edited.names] } : limits, set(name));
    });
    return [kind, ...own];
  }

  takeSettings(settings) {
    let found;
    try {
      found = settings.value.trim() ? JSON.parse(settings.value) : {};
    } catch (error) {
      tell(false, `other settings: ${error.message}`);
      return;
    }
    if (found === null || typeof found !== "object" || Array.isArray(found)) tell(false, "other settings must be an object");
    else this.change(() => this.edited.setSettings(found));
  }
}
