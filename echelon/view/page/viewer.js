// The viewer: one state, drawn when it changes.

const $ = (id) => document.getElementById(id);
/** Half the height of the picture when it follows a mech. */
const FOLLOW_VOX = 8.5;
const TOOLS_PX = 46;
const SHARPEN_MS = 160;
const TOGGLES = { top: "toggle-top", follow: "toggle-follow", seeAs: "toggle-as", showLines: "toggle-lines", showBars: "toggle-bars" };

class Viewer {
  constructor(replay) {
    this.replay = replay;
    this.scene = new Scene($("scene"));
    this.overlay = new Overlay($("overlay"));
    this.playback = new Playback();
    this.timeline = new Timeline($("timeline"), (t) => this.seek(t));
    this.roster = new Roster($("roster"), (n) => this.select(n));
    this.scoreboard = new Scoreboard($("scoreboard"));
    this.feed = new Feed($("events"), $("filters"), (t, n) => this.jump(t, n));
    this.cockpit = new Cockpit($("cockpit"), (n) => this.select(n));
    this.statistics = new Statistics($("statistics"));
    this.state = {
      battle: 0, selected: -1, hovered: -1, tab: "events", top: false, follow: false, seeAs: false, showLines: false, showBars: true,
      theme: matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark", themeChosen: false,
    };
    this.frames = 0;
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
    this.battles = [];
    this.wire();
    this.offerBattles();
    this.openBattle(0);
    this.obey(readAddress(location.hash));
  }

  // State

  openBattle(index) {
    this.state.battle = clamp(Math.round(index), 0, this.replay.battles.length - 1);
    this.battle = this.battles[this.state.battle] ??= new Battle(this.replay.about, this.replay.battles[this.state.battle]);
    this.state.selected = -1;
    for (const part of [this.playback, this.scene, this.timeline, this.roster, this.feed, this.statistics]) part.open(this.battle);
    this.camera = new Camera(this.battle.size);
    this.measure();
    this.camera.fit(this.state.top);
    this.camera.jump();
    $("battle-choice").value = this.state.battle;
    document.title = `${this.battle.about.blue} against ${this.battle.about.red} · Echelon`;
    this.refresh();
  }

  /** Bring about what an address tells. */
  obey(wish) {
    const { state } = this;
    if (wish.theme) Object.assign(state, { theme: wish.theme, themeChosen: true });
    if (wish.battle !== undefined && wish.battle !== state.battle) this.openBattle(wish.battle);
    for (const key of ["follow", "seeAs", "showLines", "showBars"]) state[key] = wish[key] ?? state[key];
    if (wish.view) state.top = wish.view === "top";
    if (wish.select !== undefined) this.select(wish.select);
    if (wish.tab) this.openTab(wish.tab);
    if (SPEEDS.includes(wish.speed)) this.playback.speed = wish.speed;
    if (wish.t !== undefined) this.seek(wish.t);
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
    this.camera.goal = { target: [x, y, 0], azimuth, elevation, reach, fov: FIELD_OF_VIEW };
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

  jump(t, n) {
    if (n !== undefined) this.state.selected = n;
    this.seek(t);
  }

  select(n) {
    this.state.selected = Number.isInteger(n) && n >= 0 && n < this.battle.mechs.length ? n : -1;
    if (this.state.selected >= 0 && !isNarrow()) this.openTab("cockpit");
    if (this.state.follow) this.closeIn();
    this.refresh();
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
    if ($("help").open) $("help").close();
    else this.select(-1);
  }

  /** Switch one of the options. */
  flip(name) {
    const { state } = this;
    if (name === "theme") Object.assign(state, { theme: state.theme === "dark" ? "light" : "dark", themeChosen: true });
    else state[name] = !state[name];
    if (name === "theme") this.showTheme();
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
    if ($("help").open) $("help").close();
    else $("help").showModal();
  }

  // Camera

  resetCamera() {
    Object.assign(this.state, { follow: false, top: false });
    this.camera.fit(false);
    this.refresh();
  }

  pan(right, ahead) {
    this.state.follow = false;
    this.camera.pan(-right, -ahead);
    this.refresh();
  }

  orbit(dx, dy) {
    this.camera.orbit(dx * 3.2, dy * 2.4);
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
    const view = { ...state, t, camera: this.camera, isShown: (n) => n >= 0 && (!known || known.has(n)) };
    this.view = view;
    this.scene.draw(view);
    this.overlay.draw(this.scene, view);
    this.timeline.draw(t);
    this.scoreboard.show(battle, m, t);
    $("seen-as").textContent = known ? `What ${battle.mechs[state.selected].name} perceives` : "";
    this.roster.show(m, t, state.selected);
    this.feed.show(t);
    const shown = [state.battle, m, state.selected, state.tab, state.theme, innerWidth].join();
    if (state.tab === "cockpit" && shown !== this.cockpitShown) this.cockpit.show(battle, state.selected, m);
    this.cockpitShown = shown;
    this.remember();
    this.frames++;
  }

  showControls() {
    const { state, playback } = this;
    const key = JSON.stringify([state, playback.playing, playback.speed]);
    if (key === this.controlsShown) return;
    this.controlsShown = key;
    for (const [name, id] of Object.entries(TOGGLES)) $(id).setAttribute("aria-pressed", state[name]);
    for (const id of ["toggle-follow", "toggle-as", "toggle-lines"]) $(id).disabled = state.selected < 0;
    $("play").setAttribute("aria-label", playback.playing ? "pause" : "play");
    $("play").dataset.state = playback.playing ? "playing" : "paused";
    $("speed").value = playback.speed;
    document.body.dataset.tab = state.tab;
    for (const tab of TABS) $(`tab-${tab}`).setAttribute("aria-selected", state.tab === tab);
  }

  showTheme() {
    document.documentElement.dataset.theme = this.state.theme;
    this.timeline.stale = true;
  }

  /** Keep the address true, not more often than browsers like. */
  remember() {
    this.reminder ??= setTimeout(() => {
      this.reminder = undefined;
      const address = writeAddress(this);
      this.written = address;
      if (location.hash !== address) history.replaceState(null, "", address);
    }, 400);
  }

  // Wiring

  wire() {
    const click = (id, act) => $(id).addEventListener("click", act);
    click("play", () => this.toggle());
    click("back", () => this.step(-1));
    click("ahead", () => this.step(1));
    click("toggle-theme", () => this.flip("theme"));
    click("open-help", () => this.help());
    click("close-help", () => $("help").close());
    click("home", () => this.resetCamera());
    for (const [name, id] of Object.entries(TOGGLES)) click(id, () => this.flip(name));
    for (const tab of TABS) click(`tab-${tab}`, () => this.openTab(tab));
    $("speed").append(...SPEEDS.map((speed) => new Option(`${speed}×`, speed)));
    $("speed").addEventListener("change", (event) => {
      this.playback.speed = Number(event.target.value);
      this.refresh();
    });
    $("battle-choice").addEventListener("change", (event) => this.openBattle(Number(event.target.value)));
    $("keys").append(...keyRows());
    listenToKeys(this);
    this.wireScene();
    $("scene").addEventListener("webglcontextlost", () => giveUp("The graphics processor dropped the picture. Load the page again."));
  }

  wireScene() {
    new Gestures($("overlay"), {
      orbit: (dx, dy) => this.orbit(dx, dy),
      pan: (dx, dy) => this.pan(dx, dy),
      zoom: (factor) => this.zoom(factor),
      click: (x, y) => this.select(this.overlay.pick(this.scene, this.camera, x, y)),
      hover: (x, y) => this.hover(x, y),
    });
    new ResizeObserver(() => {
      this.measure();
      if (!this.state.follow) this.refit();
      this.refresh();
    }).observe($("scene"));
    window.addEventListener("hashchange", () => location.hash !== this.written && this.obey(readAddress(location.hash)));
    matchMedia("(prefers-color-scheme: light)").addEventListener("change", (event) => {
      if (!this.state.themeChosen) this.state.theme = event.matches ? "light" : "dark";
      this.showTheme();
      this.refresh();
    });
  }

  /** Keep the arena fitted to a canvas that changes its shape, unless the user looks at a part of it. */
  refit() {
    const was = this.camera.fitted;
    if (Math.abs(this.camera.goal.reach - was) > 0.01) return;
    this.camera.fit(this.state.top);
    this.camera.jump();
  }

  hover(x, y) {
    const n = x < 0 ? -1 : this.overlay.pick(this.scene, this.camera, x, y);
    if (n === this.state.hovered) return;
    this.state.hovered = n;
    $("overlay").style.cursor = n >= 0 ? "pointer" : "grab";
    this.view.hovered = n;
    this.overlay.draw(this.scene, this.view);
  }

  offerBattles() {
    const options = this.replay.battles.map(({ about }, i) => {
      const [blue, red] = about.outcome.score;
      const { winner: won } = about.outcome, winner = TEAMS.includes(won) ? `${won} wins` : won;
      return new Option(`${i + 1} · ${winner} ${blue.toFixed(1)} : ${red.toFixed(1)}`, i);
    });
    $("battle-choice").append(...options);
    $("battle-choice").hidden = options.length < 2;
  }

  /** A small interface for tests and for the curious. */
  get api() {
    return {
      time: () => this.playback.t,
      seek: (t) => this.seek(t),
      select: (n) => this.select(n),
      play: () => this.playback.playing || this.toggle(),
      pause: () => this.playback.playing && this.toggle(),
      state: () => ({ ...this.state, t: this.playback.t, moment: this.battle.momentAt(this.playback.t), playing: this.playback.playing, speed: this.playback.speed, frames: this.frames, still: this.pending === undefined && (this.sharp || !this.scene.software) }),
      shownMechs: () => this.scene.actors.map(({ mech }) => mech.n),
      screenOf: (n) => {
        const place = $("overlay").getBoundingClientRect(), spot = this.overlay.project(this.scene.matrix, this.battle.pose(n, this.playback.t).pos);
        return [spot[0] + place.left, spot[1] + place.top];
      },
      drawNow: () => this.draw(),
      software: this.scene.software,
      facts: FACT,
    };
  }
}

/** Whether panels stand below the scene, as on a phone. */
function isNarrow() {
  return matchMedia("(max-width: 860px)").matches;
}

/** Say in one line why nothing can be shown. */
function giveUp(line) {
  $("trouble").textContent = line;
  $("trouble").hidden = false;
}

async function start() {
  try {
    window.echelon = new Viewer(await readReplay($("data").textContent.trim())).api;
  } catch (error) {
    const blind = error instanceof NoWebGL;
    giveUp(blind ? "This viewer needs WebGL2, and this browser does not offer it." : `This battle cannot be shown: ${error.message}`);
    if (!blind) throw error;
  }
}

start();
