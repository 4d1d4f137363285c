// The keyboard, and the help that lists it.

/** Key, what it is called, what it does to the viewer. Arrow keys step a decision, with shift 5 s, with alt a tick. */
const KEYS = [
  [" ", "space", "play, pause", (v) => v.toggle()],
  ["ArrowRight", "→", "a decision on · shift: 5 s · alt: a tick", (v, e) => v.step(e, 1)],
  ["ArrowLeft", "←", "a decision back · shift: 5 s · alt: a tick", (v, e) => v.step(e, -1)],
  ["Home", "home", "to the opening", (v) => v.seek(0)],
  ["End", "end", "to the end", (v) => v.seek(Infinity)],
  ["]", "]", "faster", (v) => v.changeSpeed(1)],
  ["[", "[", "slower", (v) => v.changeSpeed(-1)],
  ["n", "n", "select the next mech", (v) => v.selectNext(1)],
  ["p", "p", "select the previous mech", (v) => v.selectNext(-1)],
  ["Escape", "esc", "select nobody, close this", (v) => v.dismiss()],
  ["t", "t", "view from above", (v) => v.flip("top")],
  ["f", "f", "follow the selected mech", (v) => v.flip("follow")],
  ["v", "v", "see as the selected mech", (v) => v.flip("seeAs")],
  ["l", "l", "its lines of sight", (v) => v.flip("showLines")],
  ["b", "b", "bars above the mechs", (v) => v.flip("showBars")],
  ["0", "0", "the whole arena", (v) => v.resetCamera()],
  ["w", "w a s d", "move over the ground", (v) => v.pan(0, 0.08)],
  ["a", "", "", (v) => v.pan(0.08, 0)],
  ["s", "", "", (v) => v.pan(0, -0.08)],
  ["d", "", "", (v) => v.pan(-0.08, 0)],
  ["q", "q e", "turn", (v) => v.orbit(0.12, 0)],
  ["e", "", "", (v) => v.orbit(-0.12, 0)],
  ["+", "+ −", "nearer, farther", (v) => v.zoom(0.85)],
  ["=", "", "", (v) => v.zoom(0.85)],
  ["-", "", "", (v) => v.zoom(1.18)],
  ["c", "c", "light or dark", (v) => v.flip("theme")],
  ["?", "?", "this help", (v) => v.help()],
];

/** Listen to the keyboard for a viewer. */
function listenToKeys(viewer) {
  window.addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLElement && event.target.closest("select, input");
    if (event.ctrlKey || event.metaKey || (typing && event.key !== "Escape")) return;
    const presses = event.key === " " && event.target instanceof HTMLElement && event.target.closest("button, summary");
    const known = KEYS.find(([key]) => key === event.key || key === event.key.toLowerCase());
    if (!known || presses) return;
    event.preventDefault();
    known[3](viewer, event);
  });
}

/** Rows of the help. */
function keyRows() {
  return KEYS.filter(([, label]) => label).map(([, label, text]) => make("div", "key-row", make("kbd", "", label), make("span", "", text)));
}
