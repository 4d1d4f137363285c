// The map from above, y upwards: grid, boxes, zones, mechs. Teams differ in lightness as well as in hue.

const MATERIAL_COLOURS = {
  dirt: "#ab9876", lava: "#ff5a14", water: "#3d86b8", solid: "#b4b7bb", debris_field: "#57483d", solid_debris: "#54483f",
  glass: "#a5dcee", reinforced: "#67707e", foliage: "#5d8f43", air: "#d8d0c2",
};
const DARK_MATERIALS = ["debris_field", "solid_debris", "reinforced"];
const TEAM_LOOKS = { blue: { fill: "#1450a8", text: "#ffffff" }, red: { fill: "#ffb48f", text: "#3a1204" } };
const GROUND = "#e4dccb", GRID = "rgba(60,50,30,0.13)", TENTH = "rgba(60,50,30,0.38)", MARK = "#10141a";
const MARGIN = 26;
const HANDLE_VOX = 1.6;

class Chart {
  constructor(canvas, edited) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.edited = edited;
    this.draft = null;
  }

  /** Fit the map into the canvas. */
  measure() {
    const { clientWidth: wide, clientHeight: high } = this.canvas, [x, y] = this.edited.size;
    const dense = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(wide * dense);
    this.canvas.height = Math.round(high * dense);
    this.pen.setTransform(dense, 0, 0, dense, 0, 0);
    this.scale = Math.max(Math.min((wide - 2 * MARGIN) / x, (high - 2 * MARGIN) / y), 0.5);
    this.left = (wide - this.scale * x) / 2;
    this.floor = (high + this.scale * y) / 2;
  }

  /** Pixel of the canvas for a point of the map, vox. */
  spot(x, y) {
    return [this.left + x * this.scale, this.floor - y * this.scale];
  }

  /** Point of the map, vox, for a pixel of the window. */
  point(clientX, clientY) {
    const { left, top } = this.canvas.getBoundingClientRect();
    return [(clientX - left - this.left) / this.scale, (this.floor - (clientY - top)) / this.scale];
  }

  draw() {
    this.measure();
    this.pen.clearRect(0, 0, this.canvas.clientWidth, this.canvas.clientHeight);
    this.drawGrid();
    this.edited.values.boxes.forEach((box, at) => this.drawBox(box, this.isSelected("box", at)));
    if (this.draft) this.drawBox(this.draft, true);
    for (const kind of this.edited.zones) this.drawZone(kind);
    this.edited.values.units.forEach((unit, at) => this.drawUnit(unit, at));
  }

  isSelected(kind, at) {
    const selected = this.edited.selected;
    return selected !== null && selected.kind === kind && (at === undefined || selected.at === at);
  }

  drawGrid() {
    const { pen, scale } = this, [sizeX, sizeY] = this.edited.size, [left, top] = this.spot(0, sizeY);
    pen.fillStyle = GROUND;
    pen.fillRect(left, top, sizeX * scale, sizeY * scale);
    const colour = getComputedStyle(document.body).getPropertyValue("--soft");
    Object.assign(pen, { font: "11px system-ui, sans-serif", textAlign: "center", textBaseline: "middle", lineWidth: 1 });
    const step = scale * 10 < 34 ? 50 : 10, every = scale < 4 ? step : 1;
    for (const [axis, size] of [[0, sizeX], [1, sizeY]]) {
      for (let n = 0; n <= size; n += every) {
        pen.strokeStyle = n % step ? GRID : TENTH;
        pen.beginPath();
        pen.moveTo(...(axis ? this.spot(0, n) : this.spot(n, 0)));
        pen.lineTo(...(axis ? this.spot(sizeX, n) : this.spot(n, sizeY)));
        pen.stroke();
        pen.fillStyle = colour;
        if (n % step === 0) pen.fillText(String(n), ...(axis ? [left - 13, this.spot(0, n)[1]] : [this.spot(n, 0)[0], this.floor + 12]));
      }
    }
  }

  drawBox({ low, high, material = "solid" }, isSelected) {
    const { pen, scale } = this, [left, top] = this.spot(low[0], high[1]);
    const wide = (high[0] - low[0]) * scale, tall = (high[1] - low[1]) * scale;
    pen.globalAlpha = low[2] > 0 ? 0.55 : 0.92;
    pen.fillStyle = MATERIAL_COLOURS[material] ?? "#ff00ff";
    pen.fillRect(left, top, wide, tall);
    pen.globalAlpha = 1;
    Object.assign(pen, { strokeStyle: MARK, lineWidth: isSelected ? 3 : 1 });
    pen.setLineDash(low[2] > 0 ? [4, 3] : []);
    pen.strokeRect(left, top, wide, tall);
    pen.setLineDash([]);
    const height = low[2] > 0 ? `${low[2]}–${high[2]}` : String(high[2]), words = `${material} ${height}`;
    Object.assign(pen, { fillStyle: DARK_MATERIALS.includes(material) ? "#ffffff" : MARK, font: "11px system-ui, sans-serif" });
    pen.fillText(pen.measureText(words).width < wide - 6 ? words : height, left + wide / 2, top + tall / 2);
  }

  drawZone(kind) {
    const { pen, scale } = this, [x, y, radius] = this.edited.circle(kind), [left, top] = this.spot(Math.floor(x), Math.floor(y));
    const isSelected = this.isSelected(kind);
    pen.beginPath();
    pen.arc(left, top, radius * scale, 0, 2 * Math.PI);
    Object.assign(pen, { fillStyle: "rgba(120,90,0,0.10)", strokeStyle: "#6b5200", lineWidth: isSelected ? 3 : 1.5 });
    pen.fill();
    pen.setLineDash([7, 4]);
    pen.stroke();
    pen.setLineDash([]);
    Object.assign(pen, { fillStyle: "#6b5200", font: "600 11px system-ui, sans-serif" });
    pen.fillText(kind === "second" ? "zone 2" : "zone", left, top);
    if (isSelected) this.drawHandle(...this.radiusHandle(kind));
  }

  /** Where the circle lies by which a zone is widened, and that by which a mech is turned; vox. */
  radiusHandle(kind) {
    const [x, y, radius] = this.edited.circle(kind);
    return [Math.floor(x) + radius, Math.floor(y)];
  }

  turnHandle(unit) {
    const angle = ((unit.facing_deg ?? 0) * Math.PI) / 180, far = this.halfOf(unit) + HANDLE_VOX, [x, y] = placeOf(unit);
    return [x + Math.cos(angle) * far, y + Math.sin(angle) * far];
  }

  drawHandle(x, y) {
    const { pen } = this;
    pen.beginPath();
    pen.arc(...this.spot(x, y), 5, 0, 2 * Math.PI);
    Object.assign(pen, { fillStyle: "#ffffff", strokeStyle: MARK, lineWidth: 1.5 });
    pen.fill();
    pen.stroke();
  }

  /** Half of a hull's length, vox. */
  halfOf(unit) {
    return (facts.hulls[unit.hull] ?? [2, 2])[0] / 2;
  }

  drawUnit(unit, at) {
    const { pen, scale } = this, half = this.halfOf(unit), [left, top] = this.spot(...placeOf(unit));
    const look = TEAM_LOOKS[unit.team] ?? TEAM_LOOKS.red, isSelected = this.isSelected("unit", at);
    const radius = Math.max(half * scale, 6), handle = this.turnHandle(unit);
    if (unit.area) this.drawArea(unit.area, look.fill);
    pen.beginPath();
    pen.moveTo(left, top);
    pen.lineTo(...this.spot(...handle));
    Object.assign(pen, { strokeStyle: MARK, lineWidth: 2 });
    pen.stroke();
    pen.beginPath();
    pen.arc(left, top, radius, 0, 2 * Math.PI);
    Object.assign(pen, { fillStyle: look.fill, lineWidth: isSelected ? 3.5 : 1.2 });
    pen.fill();
    pen.stroke();
    this.drawHurt(unit, left, top, radius);
    Object.assign(pen, { fillStyle: look.text, font: "600 10px system-ui, sans-serif" });
    pen.fillText(`${unit.team[0]}${this.edited.nameOf(at).split("_")[1]}`, left, top);
    pen.fillStyle = MARK;
    if (scale > 7) pen.fillText(unit.hull, left, top + radius + 8);
    if (isSelected) this.drawHandle(...handle);
  }

  /** The rim of the rectangle in which a mech begins. */
  drawArea([lowX, lowY, highX, highY], colour) {
    const { pen, scale } = this;
    Object.assign(pen, { strokeStyle: colour, lineWidth: 1.5 });
    pen.setLineDash([3, 3]);
    pen.strokeRect(...this.spot(lowX, highY), (highX - lowX) * scale, (highY - lowY) * scale);
    pen.setLineDash([]);
  }

  /** A pale arc for the hit points that it lacks. */
  drawHurt(unit, left, top, radius) {
    if ((unit.hp ?? 1) >= 1) return;
    const { pen } = this;
    pen.beginPath();
    pen.arc(left, top, radius - 2, -Math.PI / 2, -Math.PI / 2 + (1 - unit.hp) * 2 * Math.PI);
    Object.assign(pen, { strokeStyle: "#ffffff", lineWidth: 3 });
    pen.stroke();
    pen.strokeStyle = MARK;
  }
}
