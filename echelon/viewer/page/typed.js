// What a key means on a page, also on layouts that write other signs with it.

const SIGN_PLACES = { BracketLeft: "[", BracketRight: "]", Comma: ",", Period: ".", Minus: "-", Equal: "=" };

/** What an American keyboard writes with the key at this place; "" if the browser does not tell the place. */
function keyPlace({ code }) {
  if (/^Key[A-Z]$/.test(code)) return code[3].toLowerCase();
  return /^Digit\d$/.test(code) ? code[5] : SIGN_PLACES[code] ?? "";
}

/**
 * The key that is meant: a Latin letter or a sign that the page knows by what it writes; a digit, keys of `places` and
 * keys that write none of these by their place.
 */
function meaningOf(event, isKnown, places = "") {
  const place = keyPlace(event), key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const isPlain = !event.shiftKey && !event.getModifierState?.("AltGraph");
  if (/\d/.test(place) && isPlain) return place;
  if (place && places.includes(place) && (places.includes(key) || !isKnown(key))) return place;
  return isKnown(key) || /^[a-z]$/.test(key) ? key : place || key;
}

/** Whether a key is one of the browser's or the system's; with AltGr a key writes a sign. */
function isShortcut(event) {
  return (event.ctrlKey || event.metaKey || event.altKey) && !event.getModifierState("AltGraph");
}
