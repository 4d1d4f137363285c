// Battles in words: who commanded, who won, how, on what map.

/** A scripted tier by its own name. */
function shortCommander(name) {
  return name.replace(/^heuristic:/, "");
}

/** How a battle went, in one line. */
function headline(about, lengthS) {
  const { winner, reason } = about.outcome, why = `${reason.replaceAll("_", " ")}, ${lengthS.toFixed(0)} s`;
  const blue = shortCommander(about.blue), red = shortCommander(about.red);
  if (winner === "blue") return `${blue} (blue) beat ${red}, ${why}`;
  if (winner === "red") return `${red} (red) beat ${blue}, ${why}`;
  return winner === "draw" ? `${blue} and ${red} drew, ${why}` : `${blue} against ${red}, ${lengthS.toFixed(0)} s recorded`;
}

/** Which map a battle was on, and its biomes, the largest first: `map 12 (volcanic ridge, forest)`; empty where nothing tells. */
function mapText({ map }) {
  if (map?.position !== undefined) return `position ${map.position}`;
  if (map?.seed === undefined) return "";
  const names = (map.biomes ?? []).map((name) => name.replaceAll("_", " ")).join(", ");
  return `map ${map.number ?? map.seed}${names ? ` (${names})` : ""}`;
}

/** Battles in groups of one seed: `[{seed, battles: [index, ...]}]`, in the order of the file. */
function pairsOf(battles) {
  const groups = new Map();
  battles.forEach(({ about }, i) => groups.set(about.seed, [...(groups.get(about.seed) ?? []), i]));
  return [...groups].map(([seed, list]) => ({ seed, battles: list }));
}
