// A small interface for tests and for the curious.

/** What `window.echelon` offers of a viewer. */
function interfaceOf(viewer) {
  return {
    time: () => viewer.playback.t,
    seek: (t) => viewer.seek(t),
    select: (n) => viewer.select(n),
    play: () => viewer.playback.playing || viewer.toggle(),
    pause: () => viewer.playback.playing && viewer.toggle(),
    state: () => ({ ...viewer.state, t: viewer.playback.t, moment: viewer.battle.momentAt(viewer.playback.t), playing: viewer.playback.playing, speed: viewer.playback.speed, frames: viewer.frames, still: viewer.pending === undefined && (viewer.sharp || !viewer.scene.software) }),
    shownMechs: () => viewer.scene.actors.map(({ mech }) => mech.n),
    screenOf: (n) => {
      const place = $("overlay").getBoundingClientRect(), spot = viewer.overlay.project(viewer.scene.matrix, viewer.battle.pose(n, viewer.playback.t).pos);
      return [spot[0] + place.left, spot[1] + place.top];
    },
    drawNow: () => viewer.draw(),
    timeline: viewer.timeline,
    table: (name) => csvOf(TABLES_TO_KEEP[name].rows(viewer.battle)),
    camera: () => viewer.camera.told,
    settle: () => { viewer.camera.jump(); viewer.refresh(); },
    software: viewer.scene.software,
    facts: FACT,
  };
}
