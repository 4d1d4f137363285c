// The viewer: one state, drawn when it changes.

const $ = (id) => document.getElementById(id);
/** Half the height of the picture when it follows a mech. */
const FOLLOW_VOX = 8.5;
const TOOLS_PX = 46;
const SHARPEN_MS = 160;
/** How near the camera comes to an event. */
const EVENT_VOX = 7;
const SAID_MS = 2600;
const TOGGLES = {
  top: "toggle-top", follow: "toggle-follow", seeAs: "toggle-as", showLines: "toggle-lines", showBars: "toggle-bars",
  showFocus: "toggle-focus", showTrails: "toggle-trails", showOrders: "toggle-orders", showTags: "toggle-tags", showLanes: "toggle-lanes", present: "toggle-present", large: "toggle-large",
};

class Viewer {
  constructor(replay) {
    this.replay = replay;
    this.scene = openScene($("scene"));
    this.overlay = new Overlay($("overlay"));
    this.playback = new Playback();
    this.timeline = new Timeline($("timeline"), $("readout"), { seek: (t) => this.seek(t), mark: (death) => this.feed.chooseDeath(death.victim) });
    this.roster = new Roster($("roster"), (n) => this.select(n));
    this.scoreboard = new Scoreboard($("scoreboard"));
    this.feed = new Feed($("events"), $("filters"), (event) => this.visit(event));
    this.missiles = new Missiles($("missiles"), (flight) => this.visitFlight(flight));
    this.intent = new IntentBox($("intent"));
    this.summary = new Summary($("summary"), { open: (i) => this.openBattle(i), compare: (i) => this.compareWith(i) });
    this.compare = new Compare($("compare"));
    this.cockpit = new Cockpit($("cockpit"), (n) => this.select(n));
    this.analysis = new AnalysisPanel($("study"), {
      visit: (event) => this.visit(event), visitShot: (event, flight) => this.visitShot(event, flight), seek: (t) => this.seek(t), refresh: () => this.refresh(),
      flip: (name) => this.flip(name), fog: (side) => this.showFog(side), keep: (name) => keepTable(this, name), number: () => this.state.battle + 1,
    });
    this.statistics = new Statistics($("statistics"), (n) => this.select(n, true));
    this.state = {
      battle: 0, selected: -1, hovered: -1, tab: "events", top: false, follow: false, seeAs: false, showLines: false, showBars: true, compare: -1,
      showFocus: false, showTrails: false, showOrders: true, fog: -1, showTags: false, showLanes: matchMedia("(min-width: 861px) and (min-height: 600px)").matches, present: false, large: false,
      theme: matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark", themeChosen: false,
    };
    this.frames = 0;
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
    this.battles = [];
    wire(this);
    offerBattles(this);
    this.state.top = Boolean(this.scene.flat);
    this.openBattle(0);
    if (this.scene.flat) this.say("Without WebGL2 the field is shown from above.");
    this.obey(readAddress(location.hash));
  }

  // State

  openBattle(index) {
    this.state.battle = clamp(Math.round(index), 0, this.replay.battles.length - 1);
    this.battle = this.battleOf(this.state.battle);
    Object.assign(this.state, { selected: -1, compare: -1 });
    for (const part of [this.playback, this.scene, this.timeline, this.roster, this.feed, this.missiles, this.statistics, this.analysis]) part.open(this.battle);
    $("toggle-orders").hidden = !this.battle.arrays.orders;
    this.camera = new Camera(this.battle.size);
    this.measure();
    this.camera.fit(this.state.top);
    this.camera.jump();
    $("battle-choice").value = this.state.battle;
    $("battles").close();
    document.title = `${this.battle.about.blue} against ${this.battle.about.red} · Echelon`;
    this.refresh();
  }

  battleOf(index) {
    const kept = this.replay.battles[index];
    return (this.battles[index] ??= new Battle(fileOf(this.replay, kept), kept));
  }

  listBattles() {
    this.summary.show(this.replay, (i) => this.battleOf(i), this.state.battle);
    $("battles").showModal();
  }

  /** Show another battle beside this one; the same again ends that. */
  compareWith(index) {
    const { state } = this, other = Math.round(index);
    state.compare = other === state.compare || !(other in this.replay.battles) || other === state.battle ? -1 : other;
    if (state.compare >= 0) this.compare.open(this.battle, this.battleOf(state.compare));
    $("battles").close();
    this.refresh();
  }

  /** Bring about what an address tells. */
  obey(wish) {
    const { state } = this;
    if (wish.theme) Object.assign(state, { theme: wish.theme, themeChosen: true });
    if (wish.battle !== undefined && wish.battle !== state.battle) this.openBattle(wish.battle);
    for (const key of ["follow", "seeAs", "showLines", "showBars", "showFocus", "showTrails", "showOrders", "fog", "showTags", "showLanes", "present", "large"]) state[key] = wish[key] ?? state[key];
    if (wish.view) state.top = wish.view === "top" || Boolean(this.scene.flat);
    if (wish.select !== undefined) this.select(wish.select);
    if (wish.tab) this.openTab(wish.tab);
    if (SPEEDS.includes(wish.speed)) this.playback.speed = wish.speed;
    if (wish.t !== undefined) this.seek(wish.t);
    if (wish.compare !== undefined) this.compareWith(wish.compare);
    this.showTheme();
    this.measure();
    this.camera.fit(state.top);
    if (wish.camera?.length === 5) this.placeCamera(wish.camera);
    if (state.follow) this.closeIn();
    this.camera.jump();
    if (wish.play) this.toggle();
    this.refresh();
  }

  placeCamera([x, y, azimuth, elevation, reach]) {
    this.camera.goal = { target: [x, y, 0], azimuth, elevation, reach, fov: this.camera.goal.fov };
  }

  seek(t) {
    this.playback.seek(t);
    this.refresh();
  }

  toggle() {
    this.playback.toggle();
    this.refresh();
  }

  /** Go on (1) or back (-1) to the next whole multiple of some seconds. */
  step(direction, by = this.battle.decisionS) {
    this.playback.step(by, direction);
    this.refresh();
  }

  changeSpeed(direction) {
    this.playback.shift(direction);
    this.refresh();
  }

  leap(seconds) {
    this.playback.leap(seconds);
    this.refresh();
  }

  /** Seek to shortly before an event, move the camera to its mechs, and select the first one. */
  visit(event) {
    const t = Math.max(event.t - (event.kind === "shutdown" ? 0 : LEAD_S), 0);
    if (event.who.length) this.state.selected = event.who[0];
    this.seek(t);
    const points = event.who.map((n) => this.battle.pose(n, t).pos);
    if (event.kind === "zone") points.push(...this.battle.zones.map(({ center }) => [...center, 0]));
    if (points.length) this.frameView(points);
  }

  /** Follow a missile from its launch: see its whole way, and play. */
  visitFlight(flight) {
    this.state.selected = flight.shooter;
    this.seek(Math.max(this.battle.tickEnd(flight.launch) - LAUNCH_LEAD_S, 0));
    this.frameView([flight.first, flight.first + flight.points - 1].map((row) => this.battle.waypoint(row)));
  }

  /** Look at a shot from its launch, with its way. */
  visitShot(event, flight) {
    this.visit(event);
    this.missiles.chosen = flight;
    this.refresh();
  }

  /** Darken what a team has not seen; the same again ends that. */
  showFog(side) {
    this.state.fog = this.state.fog === side ? -1 : side;
    this.refresh();
  }

  frameView(points) {
    this.state.follow = false;
    this.camera.frame(points, EVENT_VOX);
    this.refresh();
  }

  /** Select a mech; `stays` leaves the panel open that is. */
  select(n, stays = false) {
    this.state.selected = Number.isInteger(n) && n >= 0 && n < this.battle.mechs.length ? n : -1;
    if (this.state.selected >= 0 && !stays && !isNarrow()) this.openTab("cockpit");
    if (this.state.follow) this.closeIn();
    this.refresh();
  }

  /** Select the mech of a place within its team and go there; of the other team if it is selected already. */
  selectPlace(place) {
    const { teams, mechs } = this.battle.common, first = TEAMS.map((team) => teams[team]), { selected } = this.state;
    const side = selected >= 0 ? this.battle.mechs[selected].side : 0;
    const wanted = [side, 1 - side].map((one) => first[one][0] + place - 1).filter((n, i) => n < first[[side, 1 - side][i]][1] && n !== selected);
    if (wanted.length && wanted[0] < mechs.length) this.visitMech(wanted[0]);
  }

  /** Select a mech and bring the camera to it. */
  visitMech(n) {
    this.select(n);
    if (n >= 0) this.frameView([this.battle.pose(n, this.playback.t).pos]);
  }

  selectNext(direction) {
    const count = this.battle.mechs.length;
    let n = this.state.selected;
    for (let i = 0; i < count; i++) {
      n = (n + direction + count) % count;
      if (this.battle.isAlive(n, this.playback.t)) return this.select(n);
    }
  }

  dismiss() {
    this.select(-1);
  }

  /** Switch one of the options. */
  flip(name) {
    const { state } = this;
    if (name === "theme") Object.assign(state, { theme: state.theme === "dark" ? "light" : "dark", themeChosen: true });
    else state[name] = !state[name];
    if (name === "theme") this.showTheme();
    if (name === "large") this.timeline.stale = true;
    if (name === "top" && this.scene.flat) state.top = true;
    if (name === "top") this.camera.fit(state.top);
    if (name === "follow" && state.follow) this.closeIn();
    if (name === "follow" && !state.follow) this.camera.fit(state.top);
    this.refresh();
  }

  openTab(tab) {
    this.state.tab = tab;
    this.refresh();
  }

  help() {
    $("help").showModal();
    $("help").scrollTop = 0;
  }

  // Camera

  resetCamera() {
    Object.assign(this.state, { follow: false, top: Boolean(this.scene.flat) });
    this.camera.fit(this.state.top);
    this.refresh();
  }

  pan(right, ahead) {
    this.state.follow = false;
    this.camera.pan(-right, -ahead);
    this.refresh();
  }

  orbit(dx, dy) {
    this.camera.orbit(dx * 3.2, this.scene.flat ? 0 : dy * 2.4);
    this.state.top = this.camera.isTop;
    this.refresh();
  }

  zoom(factor) {
    this.camera.zoom(factor);
    this.refresh();
  }

  /** Begin to follow the selected mech, near enough to see it well. */
  closeIn() {
    const { goal } = this.camera;
    if (this.state.selected >= 0) goal.reach = Math.min(goal.reach, FOLLOW_VOX);
    this.trail();
  }

  /** Send the camera to where the selected mech is. */
  trail() {
    if (this.state.selected >= 0) this.camera.goal.target = this.battle.pose(this.state.selected, this.playback.t).pos;
  }

  measure() {
    this.camera.aspect = this.scene.resize(this.sharp);
    this.camera.ceiling = 1 - (2 * TOOLS_PX) / Math.max($("scene").clientHeight, 4 * TOOLS_PX);
  }

  // Drawing

  /** Draw with the next frame; many calls, one frame. */
  refresh() {
    clearTimeout(this.sharpener);
    this.pending ??= requestAnimationFrame((now) => this.frame(now));
  }

  frame(now) {
    this.pending = undefined;
    const seconds = clamp((now - (this.drawnAt ?? now)) / 1000, 0, 0.25);
    this.drawnAt = now;
    if (this.playback.playing) this.playback.advance(seconds);
    if (this.state.follow) this.trail();
    const moves = !this.calm.matches && this.camera.approach(Math.max(seconds, 1 / 60));
    if (!moves) this.camera.jump();
    this.sharp = false;
    this.draw();
    if (this.playback.playing || moves) return this.refresh();
    this.drawnAt = undefined;
    if (this.scene.software) this.sharpener = setTimeout(() => this.sharpen(), SHARPEN_MS);
  }

  /** Draw what stands still once more, with more points than the screen has. */
  sharpen() {
    this.sharp = true;
    this.draw();
  }

  draw() {
    const { playback, state, battle } = this, { t } = playback, m = battle.momentAt(t);
    this.showControls();
    this.measure();
    const known = state.seeAs && state.selected >= 0 ? battle.knownTo(state.selected, m) : null;
    const view = { ...state, t, camera: this.camera, flight: this.missiles.chosen, isShown: (n) => n >= 0 && (!known || known.has(n)) };
    this.view = view;
    if (state.compare >= 0) this.compare.draw(view);
    else this.scene.draw(view);
    if (state.compare < 0) this.overlay.draw(this.scene, view);
    this.timeline.draw(t);
    this.scoreboard.show(battle, m, t);
    $("seen-as").textContent = known ? `What ${battle.mechs[state.selected].name} perceives${known.size ? "" : ": nothing, it is dead"}` : "";
    this.intent.show(battle, m, state.showFocus);
    this.statistics.accounts.mark(state.selected);
    if (state.tab === "study") this.analysis.show(t, [state.theme, state.large, innerWidth].join());
    this.roster.show(m, t, state.selected);
    this.feed.show(t);
    const shown = [state.battle, m, t, this.cockpit.choices, state.selected, state.tab, state.theme, state.large, innerWidth].join();
    if (state.tab === "cockpit" && shown !== this.cockpitShown) this.cockpit.show(battle, state.selected, m, t);
    this.cockpitShown = shown;
    this.clip?.draw();
    this.remember();
    this.frames++;
  }

  showControls() {
    const { state, playback } = this;
    const key = JSON.stringify([state, playback.playing, playback.speed, Boolean(this.clip)]);
    if (key === this.controlsShown) return;
    this.controlsShown = key;
    for (const [name, id] of Object.entries(TOGGLES)) $(id).setAttribute("aria-pressed", state[name]);
    for (const id of ["toggle-follow", "toggle-as", "toggle-lines"]) $(id).disabled = state.selected < 0;
    $("play").setAttribute("aria-label", playback.playing ? "pause" : "play");
    $("play").dataset.state = playback.playing ? "playing" : "paused";
    $("speed").value = playback.speed;
    document.body.dataset.tab = state.tab;
    Object.assign($("toggle-fog"), { textContent: FOGS[state.fog] }).setAttribute("aria-pressed", state.fog >= 0);
    $("compare").hidden = $("end-compare").hidden = state.compare < 0;
    for (const name of ["present", "showLanes", "large"]) document.documentElement.toggleAttribute(`data-${name.toLowerCase()}`, state[name]);
    $("clip").setAttribute("aria-pressed", Boolean(this.clip));
    for (const tab of TABS) $(`tab-${tab}`).setAttribute("aria-selected", state.tab === tab);
  }

  showTheme() {
    document.documentElement.dataset.theme = this.state.theme;
    this.timeline.stale = true;
  }

  /** Tell something for a moment. */
  say(text) {
    clearTimeout(this.silence);
    $("said").textContent = text;
    this.silence = setTimeout(() => ($("said").textContent = ""), SAID_MS);
  }

  /** Keep the address true, not more often than browsers like. */
  remember() {
    this.reminder ??= setTimeout(() => {
      this.reminder = undefined;
      const address = writeAddress(this);
      this.written = address;
      if (location.hash !== address) keepAddress(address);
    }, 400);
  }

  /** Keep the arena fitted to a canvas that changes its shape, unless the user looks at a part of it. */
  refit() {
    const was = this.camera.fitted;
    if (Math.abs(this.camera.goal.reach - was) > 0.01) return;
    this.camera.fit(this.state.top);
    this.camera.jump();
  }
}

/** Say in one line why nothing can be shown. */
function giveUp(line) {
  $("trouble").textContent = line;
  $("trouble").hidden = false;
}

async function start() {
  try {
    window.echelon = interfaceOf(new Viewer(await readReplay($("data").textContent.trim())));
  } catch (error) {
    const blind = error instanceof NoWebGL;
    giveUp(blind ? "This viewer needs WebGL2 or a 2D canvas, and this browser offers neither." : `This battle cannot be shown: ${error.message}`);
    if (!blind) throw error;
  }
}

start();
