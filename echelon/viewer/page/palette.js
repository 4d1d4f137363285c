// Colours of the scene, 0..1. Those of the page stand in viewer.css.

const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255);
const css = (c, alpha = 1) => `rgba(${c.map((v) => Math.round(clamp(v, 0, 1) * 255)).join(",")},${alpha})`;

/** Light blue and dark orange-red, told apart by any eye, and in shades of grey. */
const TEAM_COLOURS = [rgb("#66b2ff"), rgb("#cf3f10")];
const TEAM_LIGHT = [rgb("#c8e4ff"), rgb("#ff8748")];

const MATERIAL_COLOURS = {
  dirt: rgb("#ab9876"), lava: rgb("#ff5a14"), water: rgb("#3d86b8"), solid: rgb("#b4b7bb"),
  debris_field: rgb("#57483d"), solid_debris: rgb("#54483f"), glass: rgb("#a5dcee"),
  reinforced: rgb("#67707e"), foliage: rgb("#5d8f43"), air: rgb("#6f6353"),
};

const SKIES = {
  dark: { top: rgb("#1c232d"), bottom: rgb("#0b0e12"), sun: 0.86, ambient: 0.46, plinth: rgb("#242a33") },
  light: { top: rgb("#cfdae6"), bottom: rgb("#f2f4f7"), sun: 0.92, ambient: 0.58, plinth: rgb("#8f8676") },
};

/** Of beams by look, blue and red. */
const BEAM_COLOURS = { ray: [rgb("#7fc4ff"), rgb("#ff8a5c")], thread: [rgb("#c9a6ff"), rgb("#ff9ad0")] };
const FLAME = [1.0, 0.55, 0.15];
const HOT = [1.0, 0.82, 0.5];
