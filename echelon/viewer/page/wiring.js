// What the elements of the page do to the viewer.

/** The field with a graphics processor, or from above without one. */
function openScene(canvas) {
  try {
    return new Scene(canvas);
  } catch (error) {
    if (!(error instanceof NoWebGL)) throw error;
    return new PlanScene(canvas);
  }
}

/** Whether panels stand below the scene, as on a phone. */
function isNarrow() {
  return matchMedia("(max-width: 860px)").matches;
}

function wire(viewer) {
  const click = (id, act) => $(id).addEventListener("click", act);
  click("play", () => viewer.toggle());
  click("back", () => viewer.step(-1));
  click("ahead", () => viewer.step(1));
  click("toggle-theme", () => viewer.flip("theme"));
  click("open-help", () => viewer.help());
  click("close-help", () => $("help").close());
  click("home", () => viewer.resetCamera());
  click("open-battles", () => viewer.listBattles());
  click("close-battles", () => $("battles").close());
  click("end-present", () => viewer.flip("present"));
  click("end-compare", () => viewer.compareWith(-1));
  click("toggle-fog", () => viewer.showFog(viewer.state.fog === 1 ? 1 : viewer.state.fog + 1));
  click("picture", () => savePicture(viewer));
  click("clip", () => toggleClip(viewer));
  click("copy", () => copyAddress(viewer));
  for (const [name, id] of Object.entries(TOGGLES)) click(id, () => viewer.flip(name));
  for (const tab of TABS) click(`tab-${tab}`, () => viewer.openTab(tab));
  $("speed").append(...SPEEDS.map((speed) => new Option(`${speed}×`, speed)));
  $("speed").addEventListener("change", (event) => {
    viewer.playback.speed = Number(event.target.value);
    viewer.refresh();
  });
  $("battle-choice").addEventListener("change", (event) => viewer.openBattle(Number(event.target.value)));
  $("keys").append(...keyRows());
  listenToKeys(viewer);
  wireScene(viewer);
  $("scene").addEventListener("webglcontextlost", () => giveUp("The GPU reset the drawing context. Reload the page."));
}

function wireScene(viewer) {
  const pick = (x, y) => viewer.overlay.pick(viewer.scene, viewer.camera, x, y);
  new Gestures($("overlay"), {
    orbit: (dx, dy) => viewer.orbit(dx, dy),
    pan: (dx, dy) => viewer.pan(dx, dy),
    zoom: (factor) => viewer.zoom(factor),
    click: (x, y) => viewer.select(pick(x, y)),
    visit: (x, y) => viewer.visitMech(pick(x, y)),
    hover: (x, y) => hover(viewer, x < 0 ? -1 : pick(x, y)),
  });
  new ResizeObserver(() => {
    viewer.measure();
    if (!viewer.state.follow) viewer.refit();
    viewer.refresh();
  }).observe($("scene"));
  window.addEventListener("hashchange", () => location.hash !== viewer.written && viewer.obey(readAddress(location.hash)));
  matchMedia("(prefers-color-scheme: light)").addEventListener("change", (event) => {
    if (!viewer.state.themeChosen) viewer.state.theme = event.matches ? "light" : "dark";
    viewer.showTheme();
    viewer.refresh();
  });
}

function hover(viewer, n) {
  if (n === viewer.state.hovered) return;
  viewer.state.hovered = n;
  $("overlay").style.cursor = n >= 0 ? "pointer" : "grab";
  viewer.view.hovered = n;
  viewer.overlay.draw(viewer.scene, viewer.view);
}

/** The menu of the battles, those of a seed together. */
function offerBattles(viewer) {
  const { battles } = viewer.replay, seconds = (i) => {
    const { about } = fileOf(viewer.replay, battles[i]);
    return battles[i].decisions * about.dt_s * about.decision_repeat;
  };
  const option = (i) => new Option(`${i + 1} · ${headline(battles[i].about, seconds(i))}`, i);
  $("battle-choice").append(...pairsOf(battles).map(({ seed, battles: own }) => {
    const group = document.createElement("optgroup");
    group.label = [mapText(battles[own[0]].about), `seed ${seed}`].filter(Boolean).join(", ");
    group.append(...own.map(option));
    return group;
  }));
  $("battle-choice").hidden = $("open-battles").hidden = battles.length < 2;
}
