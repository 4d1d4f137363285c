// The page as a whole: buttons, keys, and what the server is asked.

const at = (id) => document.getElementById(id);
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

/** Say one line in the header. */
function tell(ok, line) {
  at("said").dataset.ok = ok;
  at("said").textContent = line;
}

/** What the server answers, which is told; `done` is called first where it did what it was asked. */
async function ask(deed, values, done = () => {}) {
  let answer;
  tell(true, "…");
  try {
    const how = { "X-Echelon-Token": facts.token, "Content-Type": "application/json" };
    answer = await (await fetch(deed, { method: "POST", headers: how, body: JSON.stringify(values) })).json();
  } catch {
    answer = { ok: false, said: "the server does not answer: is the program still running?" };
  }
  if (answer.ok) done();
  tell(answer.ok, answer.said);
  return answer;
}

const edited = new Edited(facts.scenario);
const chart = new Chart(at("chart"), edited);
const panel = new Panel(edited, changed);
const pointer = new Pointer(chart, edited, changed);
let drawn = 0;

function changed() {
  chart.draw();
  panel.show();
  at("file").textContent = `${facts.file}${edited.isSaved ? "" : " *"}`;
  at("undo").disabled = edited.before.length === 0;
  window.onbeforeunload = edited.isSaved ? null : (event) => event.preventDefault();
  drawn++;
}

async function save() {
  const sent = JSON.stringify(edited.values);
  await ask("save", edited.values, () => (edited.saved = sent));
  changed();
}

async function play() {
  const result = at("result"), button = at("play");
  button.disabled = true;
  result.replaceChildren("playing; the first match on a machine compiles for minutes");
  const asked = { scenario: edited.values, x: at("x").value, y: at("y").value, battles: Number(at("battles").value), seed: Number(at("seed").value) };
  const answer = await ask("play", asked);
  button.disabled = false;
  result.replaceChildren(...(answer.ok ? told(asked, answer) : [element("p", { textContent: answer.said })]));
}

/** A match as lines, and the link to its first battle. */
function told({ x, y }, { battles, blue_wins, red_wins, draws, sides, page }) {
  const percent = (share) => `${Math.round(100 * share)} %`;
  const lines = [`${battles} battles: blue won ${blue_wins}, red won ${red_wins}, draws ${draws}`];
  for (const [name, key] of [[x, "x"], [y, "y"]]) lines.push(`${name} won ${percent(sides[key].blue)} as blue, ${percent(sides[key].red)} as red`);
  const address = URL.createObjectURL(new Blob([page], { type: "text/html" }));
  const link = element("a", { id: "replay", href: address, target: "_blank", rel: "noopener", textContent: "watch the first battle" });
  return [...lines.map((line) => element("p", { textContent: line })), link];
}

const EDITS = ["s", "z", "q", "e", "Delete", "Backspace", "Escape"];

function pressed(event) {
  const key = meaningOf(event, (key) => key in ARROWS || EDITS.includes(key), "qe"), isCommand = event.ctrlKey || event.metaKey;
  if (isCommand && key === "s") {
    event.preventDefault();
    document.activeElement?.blur();
    save();
    return;
  }
  if (["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName)) return;
  if (isCommand && key === "z") edited.undo();
  else if (isCommand || event.altKey) return;
  else if (key in ARROWS) edited.nudge(...ARROWS[key]);
  else if (key === "Delete" || key === "Backspace") edited.remove();
  else if (key === "q" || key === "e") edited.turn(key === "q" ? 15 : -15);
  else if (key === "Escape") edited.selected = null;
  else return;
  event.preventDefault();
  changed();
}

function begin() {
  at("preset").append(...choice(Object.keys(facts.presets)).children);
  at("hull").append(...choice(Object.keys(facts.hulls)).children);
  at("hull").value = "medium" in facts.hulls ? "medium" : Object.keys(facts.hulls)[0];
  at("material").append(...choice(facts.materials).children);
  at("material").value = "solid";
  for (const [id, place] of [["x", -1], ["y", 0]]) {
    at(id).append(...choice(facts.commanders).children);
    at(id).value = facts.commanders.at(place);
  }
  at("preset").addEventListener("change", () => panel.change(() => (edited.values.preset = at("preset").value)));
  for (const button of document.querySelectorAll("[data-tool]")) button.addEventListener("click", () => pointer.choose(button.dataset.tool));
  at("undo").addEventListener("click", () => {
    edited.undo();
    changed();
  });
  at("check").addEventListener("click", () => ask("check", edited.values));
  at("save").addEventListener("click", save);
  at("play").addEventListener("click", play);
  document.addEventListener("keydown", pressed);
  new ResizeObserver(changed).observe(at("map"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  pointer.choose("select");
  changed();
}

/** Interface for scripts: the scenario, the window position of a map point, and the displayed message. */
window.echelon = {
  scenario: () => edited.values,
  selected: () => edited.selected,
  isSaved: () => edited.isSaved,
  drawn: () => drawn,
  spot: (x, y) => {
    const { left, top } = at("chart").getBoundingClientRect(), [right, down] = chart.spot(x, y);
    return [left + right, top + down];
  },
};
begin();
