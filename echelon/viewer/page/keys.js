// The keyboard, and the help that lists it.

const LEAP_S = 5;

/** Key, what it is called, what it does to the viewer. */
const KEYS = [
  [" ", "space", "play, pause", (v) => v.toggle()],
  ["ArrowRight", "→ ←", "next decision, previous decision; with shift 5 s", (v, e) => (e.shiftKey ? v.leap(LEAP_S) : v.step(1))],
  ["ArrowLeft", "", "", (v, e) => (e.shiftKey ? v.leap(-LEAP_S) : v.step(-1))],
  [".", ". ,", "next tick, previous tick", (v) => v.step(1, v.battle.common.dt_s)],
  [",", "", "", (v) => v.step(-1, v.battle.common.dt_s)],
  ["Home", "home end", "to the start, to the end", (v) => v.seek(0)],
  ["End", "", "", (v) => v.seek(Infinity)],
  ["]", "] [", "faster, slower", (v) => v.changeSpeed(1)],
  ["[", "", "", (v) => v.changeSpeed(-1)],
  ["n", "n p", "select the next mech, the previous one", (v) => v.selectNext(1)],
  ["p", "", "", (v) => v.selectNext(-1)],
  ...[1, 2, 3, 4, 5, 6, 7, 8, 9].map((k) => [`${k}`, k === 1 ? "1 … 9" : "", "select and show a mech by its number; again: of the other team", (v) => v.selectPlace(k)]),
  ["Escape", "esc", "clear the selection; close a list", (v) => v.dismiss()],
  ["t", "t", "view from above", (v) => v.flip("top")],
  ["f", "f", "follow the selected mech", (v) => v.flip("follow")],
  ["v", "v", "see as the selected mech", (v) => v.flip("seeAs")],
  ["l", "l", "its lines of sight", (v) => v.flip("showLines")],
  ["b", "b", "bars above the mechs", (v) => v.flip("showBars")],
  ["o", "o", "preferred targets of each pack", (v) => v.flip("showFocus")],
  ["r", "r", "paths of the last seconds", (v) => v.flip("showTrails")],
  ["k", "k", "fog of war: of blue, of red, off", (v) => v.showFog(v.state.fog === 1 ? 1 : v.state.fog + 1)],
  ["g", "g", "tags on the field", (v) => v.flip("showTags")],
  ["h", "h", "hit points, damage and control below the scores", (v) => v.flip("showLanes")],
  ["m", "m", "show only the field", (v) => v.flip("present")],
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

const ACTS = Object.fromEntries(KEYS.map(([key, , , act]) => [key, act]));

/** Listen to the keyboard for a viewer. */
function listenToKeys(viewer) {
  window.addEventListener("keydown", (event) => {
    const chooses = event.target.closest?.("select"), dialog = document.querySelector("dialog[open]");
    if (isShortcut(event) || ((chooses || dialog) && event.key !== "Escape")) return;
    // Behind an open dialog nothing moves.
    if (dialog) {
      event.preventDefault();
      dialog.close();
      return;
    }
    const presses = event.key === " " && event.target.closest?.("button");
    const meant = meaningOf(event, (key) => key in ACTS, "wasdqe"), act = ACTS[meant];
    if (!act || presses) return;
    event.preventDefault();
    act(viewer, event);
  });
  // A button keeps the focus where the keyboard reached it; after a click the space bar plays again.
  window.addEventListener("click", (event) => event.detail > 0 && event.target.closest?.("button")?.blur());
}

/** Rows of the help. */
function keyRows() {
  return KEYS.filter(([, label]) => label).map(([, label, text]) => make("div", "key-row", make("kbd", "", label), make("span", "", text)));
}
