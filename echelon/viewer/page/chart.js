// A small chart over the whole battle, with a line at the moment that is shown; a press on it goes there.

const SMALL_HIGH = 62;

/** Curves of both teams: blue whole, red dashed. */
const teamCurves = (sides) => TEAMS.map((team, side) => ({ label: team, tint: `--${team}`, dashed: side === 1, values: sides[side] }));

/** A button that goes to what it tells of: `event` as the viewer visits it, `parts` of text and `{n}` for a mech. */
function visitRow(battle, event, parts, onVisit) {
  const word = (part) => (typeof part === "string" ? part : make("b", battle.mechs[part.n].team, battle.mechs[part.n].name));
  const button = make("button", "event wide", make("time", "", clockText(event.t)), make("span", "what", ...parts.map(word)));
  button.type = "button";
  button.addEventListener("click", () => onVisit(event));
  return make("li", "", button);
}

/** A table of rows of cells, the first of each its head. */
function plainTable(heads, rows) {
  const head = make("tr", "", ...heads.map(([text, title]) => Object.assign(make("th", "", text), { title: title ?? "", scope: "col" })));
  const body = rows.map((cells) => make("tr", "", ...cells.map((cell) => make("td", "", cell))));
  return make("table", "", make("thead", "", head), make("tbody", "", ...body));
}

class Chart {
  /** `curves`: `{label, tint, dashed, values}`, a value a moment, NaN where there is none; drawn between `low` and `high`. */
  constructor(battle, { title, curves, low = 0, high = 1, tell }, onSeek) {
    Object.assign(this, { battle, curves, low, high, tell });
    this.canvas = make("canvas", "");
    this.words = make("output", "");
    this.element = make("figure", "small-chart", make("figcaption", "", title), this.canvas, this.words);
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", title);
    this.canvas.addEventListener("pointerdown", (event) => onSeek(clamp(event.offsetX / this.canvas.clientWidth, 0, 1) * battle.lengthS));
  }

  draw(t) {
    const { canvas, battle, curves, low, high } = this, wide = canvas.clientWidth, dense = densityOf(canvas);
    if (!wide) return;
    Object.assign(canvas, { width: Math.round(wide * dense), height: Math.round(SMALL_HIGH * dense) });
    const pen = canvas.getContext("2d"), style = getComputedStyle(canvas), colour = (name) => style.getPropertyValue(name).trim();
    const xOf = (time) => (time / (battle.lengthS || 1)) * (wide - 2) + 1, yOf = (v) => SMALL_HIGH - 2 - clamp((v - low) / (high - low || 1), 0, 1) * (SMALL_HIGH - 4);
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    pen.fillStyle = colour("--line");
    pen.fillRect(0, yOf(Math.max(low, 0)), wide, 1);
    for (const { tint, dashed, values } of curves) {
      pen.beginPath();
      for (let m = 0; m < values.length; m++) if (!Number.isNaN(values[m])) pen.lineTo(xOf(m * battle.decisionS), yOf(values[m]));
      Object.assign(pen, { strokeStyle: colour(tint), lineWidth: 1.5 });
      pen.setLineDash(dashed ? [5, 2] : []);
      pen.stroke();
    }
    pen.setLineDash([]);
    pen.fillStyle = colour("--text");
    pen.fillRect(xOf(t) - 0.5, 0, 1, SMALL_HIGH);
    const m = battle.momentAt(t), value = (v) => (Number.isNaN(v) || v === undefined ? "none" : this.tell(v));
    this.words.textContent = `${clockText(t)} · ${curves.map(({ label, values }) => `${label} ${value(values[m])}`).join(" · ")}`;
  }
}
