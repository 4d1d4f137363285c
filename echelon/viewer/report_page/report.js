"use strict";
// Text from files enters the page as text alone, never as markup.
(() => {
  const report = JSON.parse(document.getElementById("data").textContent);
  const page = JSON.parse(document.getElementById("page").textContent);
  const at = (selector) => document.querySelector(selector);
  const SVG = "http://www.w3.org/2000/svg";
  const WIDE = 340, HIGH = 170, LEFT = 44, RIGHT = 8, TOP = 8, BOTTOM = 20;

  function add(parent, name, text, kind) {
    const made = document.createElement(name);
    if (text !== undefined && text !== null) made.textContent = text;
    if (kind) made.className = kind;
    parent.append(made);
    return made;
  }

  function draw(parent, name, values) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(values)) made.setAttribute(key, value);
    parent.append(made);
    return made;
  }

  function short(value) {
    if (value === null || value === undefined) return "";
    const size = Math.abs(value);
    for (const [unit, name] of [[1e9, " G"], [1e6, " M"], [1e3, " k"]])
      if (size >= Math.max(unit, 1e4)) return `${Number((value / unit).toPrecision(3))}${name}`;
    return size >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
  }

  const percent = (share) => `${Math.round(100 * share)} %`;

  function ticks(low, high, most) {
    const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
    const found = [];
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) found.push(n * step);
    return found;
  }

  function range(chart) {
    if (chart.range) return chart.range;
    const values = chart.lines.flatMap((line) => [...line.y, ...(line.low ?? []), ...(line.high ?? [])]).filter((y) => y !== null);
    let low = Math.min(...values), high = Math.max(...values);
    if (low > 0 && low < 0.5 * high) low = 0;
    if (low === high) [low, high] = [low - Math.max(0.05 * Math.abs(low), 0.5), high + Math.max(0.05 * Math.abs(high), 0.5)];
    const rim = 0.04 * (high - low);
    return [low === 0 ? 0 : low - rim, high + rim];
  }

  function chart(parent, spec) {
    const figure = add(parent, "figure");
    add(figure, "figcaption", spec.title);
    const legend = add(figure, "div", null, "legend");
    const lines = spec.lines.map((line, i) => ({ ...line, x: report.axes[line.axis], colour: `var(--c${i % 8})` }));
    const readouts = lines.map((line) => {
      const label = add(legend, "span", lines.length > 1 ? line.name : "");
      label.style.setProperty("--line", line.colour);
      return label;
    });
    const xs = lines.flatMap((line) => line.x), [low, high] = range(spec);
    const first = Math.min(...xs), last = Math.max(first + 1, ...xs);
    // Points stand beside each other, also at either end.
    const inset = spec.points ? 10 : 0, room = WIDE - LEFT - RIGHT - 2 * inset;
    const px = (x) => LEFT + inset + ((x - first) / (last - first)) * room;
    const py = (y) => HIGH - BOTTOM - ((y - low) / (high - low)) * (HIGH - TOP - BOTTOM);
    const svg = draw(figure, "svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": spec.title });
    for (const y of ticks(low, high, 4)) {
      draw(svg, "line", { class: "grid", x1: LEFT, x2: WIDE - RIGHT, y1: py(y), y2: py(y) });
      draw(svg, "text", { x: LEFT - 5, y: py(y) + 4, "text-anchor": "end" }).textContent = spec.percent ? percent(y) : short(y);
    }
    for (const x of ticks(first, last, 4))
      draw(svg, "text", { x: px(x), y: HIGH - 5, "text-anchor": "middle" }).textContent = short(x);
    for (const [x, stage] of report.stages) if (x > first && x < last) stageMark(svg, px(x), stage);
    if (spec.bands) for (const line of lines) band(svg, line, px, py);
    const aside = (i) => 4 * (i - (lines.length - 1) / 2);
    lines.forEach((line, i) => (spec.points ? points(svg, line, (x) => px(x) + aside(i), py) : curve(svg, line, px, py)));
    const here = draw(svg, "line", { class: "here", y1: TOP, y2: HIGH - BOTTOM, visibility: "hidden" });
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const x = first + (((event.clientX - box.left) / box.width) * WIDE - LEFT - inset) / room * (last - first);
      const spot = Math.min(Math.max(x, first), last);
      here.setAttribute("x1", px(spot)); here.setAttribute("x2", px(spot)); here.setAttribute("visibility", "visible");
      lines.forEach((line, i) => { readouts[i].textContent = `${lines.length > 1 ? line.name : ""} ${told(line, spot, spec)}`; });
    });
    svg.addEventListener("pointerleave", () => {
      here.setAttribute("visibility", "hidden");
      lines.forEach((line, i) => { readouts[i].textContent = lines.length > 1 ? line.name : ""; });
    });
  }

  function told(line, x, spec) {
    let best = -1;
    line.x.forEach((own, i) => {
      if (line.y[i] !== null && (best < 0 || Math.abs(own - x) < Math.abs(line.x[best] - x))) best = i;
    });
    if (best < 0) return "";
    const show = spec.percent ? percent : short;
    const band = line.low ? ` (${show(line.low[best])} to ${show(line.high[best])})` : "";
    return `${show(line.y[best])}${band} at ${short(line.x[best])}`;
  }

  /** Where a stage of the curriculum begins. */
  function stageMark(svg, x, stage) {
    draw(svg, "line", { class: "stage", x1: x, x2: x, y1: TOP, y2: HIGH - BOTTOM });
    draw(svg, "text", { class: "stage-number", x: x + 3, y: TOP + 9 }).textContent = stage;
  }

  /** The interval of a curve over runs. */
  function band(svg, line, px, py) {
    const there = line.x.map((x, i) => [px(x), py(line.high[i])]), back = line.x.map((x, i) => [px(x), py(line.low[i])]).reverse();
    draw(svg, "polygon", { class: "band", style: `--line: ${line.colour}`, points: [...there, ...back].map((spot) => spot.join()).join(" ") });
  }

  const known = (line) => line.x.map((x, i) => [x, line.y[i], i]).filter(([, y]) => y !== null);

  function curve(svg, line, px, py, kind = "line") {
    const style = `--line: ${line.colour}`, spots = known(line);
    draw(svg, "polyline", { class: kind, style, points: spots.map(([x, y]) => `${px(x)},${py(y)}`).join(" ") });
    if (kind === "line" && spots.length <= 40) for (const [x, y] of spots) draw(svg, "circle", { class: "dot", style, cx: px(x), cy: py(y), r: 2 });
  }

  /** Evaluations: points with their intervals, and dots that lead from one to the next. */
  function points(svg, line, px, py) {
    const style = `--line: ${line.colour}`;
    curve(svg, line, px, py, "between");
    for (const [x, y, i] of known(line)) {
      if (line.low) draw(svg, "line", { class: "whisker", style, x1: px(x), x2: px(x), y1: py(line.low[i]), y2: py(line.high[i]) });
      draw(svg, "circle", { class: "dot", style, cx: px(x), cy: py(y), r: 3 });
    }
  }

  function table(parent, columns, rows, texts = [0]) {
    const made = add(parent, "table"), head = add(add(made, "thead"), "tr"), body = add(made, "tbody");
    columns.forEach((name, i) => { add(head, "th", name, texts.includes(i) ? "text" : "").scope = "col"; });
    for (const row of rows) {
      const line = add(body, "tr");
      row.forEach((cell, i) => {
        const box = add(line, "td", null, texts.includes(i) ? "text" : "");
        if (cell instanceof Node) box.append(cell);
        else box.textContent = typeof cell === "number" ? short(cell) : cell ?? "";
      });
    }
  }

  function span(low, middle, high, title) {
    const made = document.createElement("span");
    made.className = "span";
    made.title = title;
    const bar = add(made, "i"), mark = add(made, "b");
    bar.style.left = `${100 * low}%`; bar.style.width = `${Math.max(100 * (high - low), 1)}%`;
    mark.style.left = `calc(${100 * middle}% - 1px)`;
    return made;
  }

  function head() {
    at("#name").textContent = report.name;
    add(at("#state"), "b", report.state);
    at("#state").append(` · ${report.told}`);
    at("#signs").hidden = report.signs.length === 0;
    for (const sign of report.signs) add(at("#signs"), "li", sign);
    const done = Math.round(1000 * report.progress) / 10;
    at("#bar div").style.width = `${done}%`;
    at("#bar").setAttribute("aria-valuenow", done);
    at("#made").textContent = report.made;
    at("#stages").hidden = report.stages.length === 0;
    at("#best").textContent = ` ${report.best}`;
    for (const [name, value] of report.origin) {
      const row = add(at("#origin"), "tr");
      add(row, "td", name);
      add(row, "td", value, "text");
    }
    at("#bar").hidden = Boolean(report.tables);
    at("#reload").hidden = report.state !== "running";
    const box = at("#reload input"), key = "echelon-report";
    box.checked = location.hash === "#live";
    const again = () => setTimeout(() => { if (box.checked) location.reload(); }, 60000);
    box.addEventListener("change", () => { location.hash = box.checked ? "live" : ""; if (box.checked) again(); });
    if (box.checked && report.state === "running") again();
  }

  function contents() {
    for (const section of document.querySelectorAll("main section:not([hidden])"))
      add(at("#contents"), "a", section.querySelector("h2").textContent).href = `#${section.id}`;
  }

  function results() {
    at("#results").hidden = report.tiles.length === 0;
    for (const tile of report.tiles) {
      const box = add(at("#tiles"), "div", null, "tile");
      add(box, "div", tile.what, "what");
      add(box, "div", tile.value, "value");
      add(box, "div", tile.detail, "detail");
    }
  }

  function curves(selector, charts) {
    const able = charts.filter((spec) => spec.lines.length > 0);
    for (const spec of able) chart(at(`${selector} .charts`), spec);
    return able.length > 0;
  }

  /** Tables that compare several runs. */
  function compared() {
    const tables = report.tables ?? [];
    at("#compared").hidden = tables.length === 0;
    for (const { title, note, columns, rows } of tables) {
      add(at("#compared"), "h3", title);
      add(at("#compared"), "p", note, "note");
      if (rows.length) table(add(at("#compared"), "div", null, "scroll"), columns, rows, columns.map((_, i) => i));
    }
  }

  function evaluations() {
    const { columns, rows } = report.evaluations;
    at("#evaluations").hidden = rows.length === 0;
    const shown = (row) => [row.rival, `${row.wins} of ${row.battles}`, percent(row.win_rate), span(row.low, row.win_rate, row.high, `${percent(row.low)} to ${percent(row.high)}`), `${percent(row.low)} to ${percent(row.high)}`, ...columns.map(([name]) => row[name])];
    const names = ["against", "won", "win rate", "", "95 % interval", ...columns.map(([, title]) => title)];
    const last = rows.length ? rows[rows.length - 1].iteration : 0;
    const [latest, all] = document.querySelectorAll("#evaluations .scroll");
    table(latest, names, rows.filter((row) => row.iteration === last).map(shown));
    const every = [...rows].reverse().map((row) => [short(row.agent_steps), ...shown(row)]);
    table(all, ["agent steps", ...names], every, [0, 1]);
  }

  function skills() {
    at("#skills").hidden = report.skills.length === 0;
    const rows = report.skills.map((row) => {
      const interval = `${percent(row.low)} to ${percent(row.high)}`;
      return [row.piece, row.skill, `${row.wins} of ${row.battles}`, percent(row.win_rate), span(row.low, row.win_rate, row.high, interval), interval];
    });
    table(at("#skills .scroll"), ["piece", "skill", "won", "share", "", "95 % interval"], rows, [0, 1]);
  }

  function behaviour() {
    const found = report.behaviour, hasCharts = curves("#behaviour", found.charts);
    at("#behaviour").hidden = !(found.weapons.rows.length || found.deeds.rows.length || hasCharts);
    at("#against").textContent = found.against;
    const [weapons, deeds] = document.querySelectorAll("#behaviour .columns .scroll");
    table(weapons, found.weapons.columns, found.weapons.rows);
    table(deeds, found.deeds.columns, found.deeds.rows);
    if (!found.distances.length) return;
    at("#distances").hidden = false;
    const most = Math.max(...found.distances.map((row) => row.high), 1);
    const rows = found.distances.map((row) => [row.weapon, row.hits, `${short(row.median)} vox`, span(row.low / most, row.median / most, row.high / most, `${short(row.low)} to ${short(row.high)} vox`), `${short(row.low)} to ${short(row.high)} vox`]);
    table(at("#distances .scroll"), ["weapon", "hits", "median", `0 to ${short(most)} vox`, "middle half"], rows);
  }

  function replay() {
    at("#battle").textContent = report.battle;
    at("#replay").hidden = !report.battle;
    if (!page) return;
    const address = URL.createObjectURL(new Blob([page], { type: "text/html" }));
    const button = at("#play"), apart = at("#apart");
    button.hidden = apart.hidden = false;
    apart.href = address;
    button.addEventListener("click", () => {
      at("#viewer").replaceChildren();
      const frame = add(at("#viewer"), "iframe");
      frame.title = "the battle";
      frame.allow = "fullscreen";
      frame.src = address;
      frame.scrollIntoView({ block: "nearest" });
    });
  }

  function config() {
    at("#preset").textContent = report.config.told;
    at("#config").hidden = report.config.settings.length === 0;
    const [changed, all] = document.querySelectorAll("#config .scroll");
    const differ = report.config.settings.filter((row) => row[2] !== null);
    if (differ.length) table(changed, ["setting", "this run", "preset"], differ, [0, 1, 2]);
    table(all, ["setting", "value"], report.config.settings.map((row) => row.slice(0, 2)), [0, 1]);
  }

  head();
  results();
  at("#curves").hidden = !curves("#curves", report.charts);
  compared();
  evaluations();
  skills();
  behaviour();
  replay();
  config();
  contents();
})();
