// What test_page_layout.py measures of a page: each function returns what is wrong by name.
const named = (e) => e.id || e.className || e.tagName;
const visible = (e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && e.getBoundingClientRect().width > 0;
const all = (selector, root = document) => [...root.querySelectorAll(selector)].filter(visible);
const shownRoot = () => document.querySelector("dialog[open]") ?? document.body;

/** Elements beyond the left or right edge of the screen, but within what scrolls or is cut. */
function beyond() {
  const cut = (e) => e && e !== document.body && (/auto|scroll|hidden/.test(getComputedStyle(e).overflowX) || cut(e.parentElement));
  const wide = document.documentElement.clientWidth, box = (e) => e.getBoundingClientRect();
  return all("body *").filter((e) => !cut(e.parentElement) && (box(e).right > wide + 0.5 || box(e).left < -0.5)).map(named);
}

/** Parts that scroll sideways, the page included. */
function sideways() {
  const parts = all(".panel, dialog, header, footer, #compare, .tabs, .view-tools, .observed");
  return [...parts, document.scrollingElement].filter((e) => e.scrollWidth > e.clientWidth + 1).map(named);
}

/** Pairs of parts that lie over each other. */
function overlapping() {
  const parts = ["header", "#stage", "footer", ".tabs", ".panel"].flatMap((selector) => all(selector));
  const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  const pairs = parts.flatMap((a, i) => parts.slice(i + 1).map((b) => [a, b]));
  return pairs.filter(([a, b]) => over(a.getBoundingClientRect(), b.getBoundingClientRect())).map((pair) => pair.map(named));
}

/** What can be pressed, but lies below something else or is not on the screen. */
function covered() {
  const open = shownRoot(), selector = "header button, header select, .view-tools button, .transport button, .transport select, .tabs button, "
    + "#end-compare, #end-present, #close-help, #close-battles";
  return all(selector, open).filter((e) => {
    const { left, right, y: top, height } = e.getBoundingClientRect(), y = top + height / 2;
    if (open !== document.body && (y < 0 || y > innerHeight)) return false; // a dialog scrolls
    return [left + 2, (left + right) / 2, right - 2].some((x) => !e.contains(document.elementFromPoint(x, y)));
  }).map(named);
}

/** Every text with its colour, that of its ground, and its size in px; once for each combination. */
function texts() {
  const found = new Map(), walk = document.createTreeWalker(shownRoot(), NodeFilter.SHOW_TEXT);
  const ground = (e) => (e && /, 0\)$|transparent/.test(getComputedStyle(e).backgroundColor) ? ground(e.parentElement) : e && getComputedStyle(e).backgroundColor);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const e = node.parentElement;
    if (!node.data.trim() || !visible(e) || e.closest("script, style, option, svg, :disabled, canvas")) continue;
    const { color, fontSize } = getComputedStyle(e), below = ground(e);
    // What lies half transparent over the field has no colour of its own.
    if (/^rgb\(/.test(below)) found.set([color, below, fontSize].join(), [node.data.trim().slice(0, 30), color, below, parseFloat(fontSize) * (e.currentCSSZoom ?? 1)]);
  }
  return [...found.values()];
}
