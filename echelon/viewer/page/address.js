// The state of the viewer as the part of the address behind #, to share and to come back to.

const TABS = ["teams", "events", "missiles", "cockpit", "statistics", "study"];

/** The wishes that an address tells; what it does not tell is undefined. */
function readAddress(hash) {
  const words = new URLSearchParams(hash.replace(/^#/, ""));
  const number = (name) => (words.has(name) && Number.isFinite(Number(words.get(name))) ? Number(words.get(name)) : undefined);
  const flag = (name) => (words.has(name) ? words.get(name) !== "0" : undefined);
  const oneOf = (name, known) => (known.includes(words.get(name)) ? words.get(name) : undefined);
  return {
    battle: number("battle"), t: number("t"), select: number("select"), speed: number("speed"),
    view: oneOf("view", ["top", "orbit"]), theme: oneOf("theme", ["dark", "light"]), tab: oneOf("tab", TABS),
    camera: words.get("cam")?.split(",").map(Number).filter(Number.isFinite),
    follow: flag("follow"), seeAs: flag("as"), showLines: flag("lines"), showBars: flag("bars"), play: flag("play"),
    showFocus: flag("focus"), showTrails: flag("trails"), showOrders: flag("orders"), fog: { blue: 0, red: 1 }[words.get("fog")], showTags: flag("tags"), showLanes: flag("course"), present: flag("present"), large: flag("large"),
    compare: number("beside"),
  };
}

/** The address of a state. */
function writeAddress(viewer) {
  const { playback, state } = viewer;
  const words = new URLSearchParams({ battle: state.battle, t: playback.t.toFixed(2) });
  if (state.selected >= 0) words.set("select", state.selected);
  words.set("view", state.top ? "top" : "orbit");
  if (state.themeChosen) words.set("theme", state.theme);
  words.set("tab", state.tab);
  const flags = [["follow", "follow"], ["as", "seeAs"], ["lines", "showLines"], ["focus", "showFocus"], ["trails", "showTrails"], ["tags", "showTags"], ["present", "present"], ["large", "large"]];
  for (const [name, key] of flags) if (state[key]) words.set(name, "1");
  if (state.fog >= 0) words.set("fog", TEAMS[state.fog]);
  if (!state.showOrders) words.set("orders", "0");
  if (state.compare >= 0) words.set("beside", state.compare);
  if (playback.speed !== 1) words.set("speed", playback.speed);
  if (viewer.camera.isMoved && !state.follow) words.set("cam", viewer.camera.told.join(","));
  if (!state.showBars) words.set("bars", "0");
  return `#${words}`;
}

/** Put the address of a state into the browser's bar; false if the page has no address of its own, as in a notebook's frame. */
function keepAddress(address) {
  try {
    history.replaceState(null, "", address);
    return true;
  } catch (error) {
    if (error.name !== "SecurityError") throw error;
    return false;
  }
}
