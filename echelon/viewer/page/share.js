// What one takes along: an address, a picture, a clip. Nothing leaves this machine.

const CLIP_FPS = 30;

/** Offer bytes as a file to keep. */
function offer(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 4000);
}

/** What files of a moment are called. */
function fileName(viewer, suffix) {
  const seconds = viewer.playback.t.toFixed(2).replace(".", "_");
  return `echelon-battle-${viewer.state.battle + 1}-${seconds}s.${suffix}`;
}

/** The field with everything written over it, as one canvas. */
function pictured(viewer, onto = document.createElement("canvas")) {
  const layers = [$("scene"), $("overlay")], [first] = layers;
  if (onto.width !== first.width || onto.height !== first.height) Object.assign(onto, { width: first.width, height: first.height });
  const pen = onto.getContext("2d");
  for (const layer of layers) pen.drawImage(layer, 0, 0, onto.width, onto.height);
  return onto;
}

/** Draw once more, in as many points as there are, and keep that as a PNG. */
function savePicture(viewer) {
  viewer.sharpen();
  pictured(viewer).toBlob((blob) => {
    offer(blob, fileName(viewer, "png"));
    viewer.say("picture saved");
  }, "image/png");
}

/** Begin to record what is shown, or end and keep it. */
function toggleClip(viewer) {
  if (viewer.clip) return viewer.clip.stop();
  if (!window.MediaRecorder) return viewer.say("this browser records no clips");
  const canvas = pictured(viewer), recorder = new MediaRecorder(canvas.captureStream(CLIP_FPS), { mimeType: "video/webm" }), parts = [];
  recorder.addEventListener("dataavailable", (event) => parts.push(event.data));
  recorder.addEventListener("stop", () => {
    viewer.clip = undefined;
    offer(new Blob(parts, { type: "video/webm" }), fileName(viewer, "webm"));
    viewer.say("clip saved");
    viewer.refresh();
  });
  recorder.start();
  viewer.clip = { stop: () => recorder.stop(), draw: () => pictured(viewer, canvas) };
  viewer.say("recording: press again to end");
  if (!viewer.playback.playing) viewer.toggle();
}

/** Put the address of what is shown on the clipboard; in a frame, whose address is not that of the page, its part from # on. */
async function copyAddress(viewer) {
  const view = writeAddress(viewer), isShown = keepAddress(view) && window === window.top;
  try {
    await navigator.clipboard.writeText(isShown ? location.href : view);
    viewer.say(isShown ? "address copied" : `copied ${view.slice(0, 12)}…: append it to the address of the page`);
  } catch {
    viewer.say(isShown ? "the address bar holds the address of this view" : "nothing copied: a page in a frame has no address of its own");
  }
}
