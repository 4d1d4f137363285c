// What the pointer does on the map, by the tool in hand.

const GRIP_PX = 9;

class Pointer {
  constructor(chart, edited, changed) {
    Object.assign(this, { chart, edited, changed, tool: "select", drag: null });
    const { canvas } = chart;
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointercancel", () => this.give());
  }

  choose(tool) {
    this.tool = tool;
    for (const button of document.querySelectorAll("[data-tool]")) button.setAttribute("aria-pressed", button.dataset.tool === tool);
  }

  press(event) {
    if (event.button !== 0) return;
    const [x, y] = this.chart.point(event.clientX, event.clientY), { edited } = this;
    this.chart.canvas.focus();
    this.chart.canvas.setPointerCapture(event.pointerId);
    if (TEAMS.includes(this.tool)) {
      if (this.isInside(x, y)) edited.place(this.tool, document.getElementById("hull").value, x, y);
      this.drag = null;
    } else if (this.tool === "box") this.drag = this.isInside(x, y) ? { does: "draw", from: [x, y] } : null;
    else this.drag = this.tool === "zone" ? this.takeZone(x, y) : this.take(x, y);
    this.changed();
  }

  isInside(x, y) {
    const [sizeX, sizeY] = this.edited.size;
    return x >= 0 && y >= 0 && x < sizeX && y < sizeY;
  }

  /** Whether a point of the map lies on a handle. */
  isAt([handleX, handleY], x, y) {
    return Math.hypot(handleX - x, handleY - y) * this.chart.scale <= GRIP_PX;
  }

  /** Select what lies at a point, and begin to drag it or its handle. */
  take(x, y) {
    const { edited, chart } = this, { kind } = edited.selected ?? {};
    if (kind === "unit" && this.isAt(chart.turnHandle(edited.row), x, y)) return this.begin("turn");
    if (edited.zones.includes(kind) && this.isAt(chart.radiusHandle(kind), x, y)) return this.begin("widen");
    edited.selected = this.found(x, y);
    if (!edited.selected) return null;
    const [ownX, ownY] = edited.spot;
    return this.begin("move", [ownX - x, ownY - y]);
  }

  /** What lies at a point: mechs above zones' names and rims, those above boxes. */
  found(x, y) {
    const { edited, chart } = this, { units, boxes } = edited.values;
    const away = (one) => Math.hypot(placeOf(one)[0] - x, placeOf(one)[1] - y);
    const unit = units.findLastIndex((one) => away(one) <= Math.max(chart.halfOf(one), 6 / chart.scale));
    if (unit >= 0) return { kind: "unit", at: unit };
    for (const kind of edited.zones) {
      const [column, row, radius] = edited.circle(kind), away = Math.hypot(Math.floor(column) - x, Math.floor(row) - y);
      if (away < 1 || Math.abs(away - radius) * chart.scale < 5) return { kind };
    }
    const box = boxes.findLastIndex(({ low, high }) => x >= low[0] && x < high[0] && y >= low[1] && y < high[1]);
    return box >= 0 ? { kind: "box", at: box } : null;
  }

  /** The tool for zones: its rim or handle widens the zone, any other place moves it there. */
  takeZone(x, y) {
    const { edited, chart } = this;
    const kind = edited.zones.includes(edited.selected?.kind) ? edited.selected.kind : "zone";
    edited.selected = { kind };
    if (this.isAt(chart.radiusHandle(kind), x, y)) return this.begin("widen");
    const drag = this.begin("move");
    edited.moveTo(x, y);
    return drag;
  }

  begin(does, offset = [0, 0]) {
    this.edited.remember();
    return { does, offset };
  }

  move(event) {
    const [x, y] = this.chart.point(event.clientX, event.clientY), { edited, drag } = this;
    document.getElementById("where").textContent = this.isInside(x, y) ? `${x.toFixed(1)}, ${y.toFixed(1)}` : "";
    if (!drag) return;
    if (drag.does === "draw") this.chart.draft = this.boxTo(x, y);
    else if (drag.does === "move") {
      const step = edited.selected.kind === "unit" ? toHalf : Math.round;
      edited.moveTo(step(x + drag.offset[0]), step(y + drag.offset[1]));
    } else if (drag.does === "turn") {
      const { x: ownX, y: ownY } = edited.row, angle = (Math.atan2(y - ownY, x - ownX) * 180) / Math.PI;
      edited.face(Math.round(angle / 5) * 5);
    } else {
      const { kind } = edited.selected, [column, row] = edited.circle(kind);
      edited.setCircle(kind, [column, row, Math.max(toHalf(Math.hypot(x - Math.floor(column), y - Math.floor(row))), 1)]);
    }
    this.changed();
  }

  release(event) {
    if (this.drag?.does === "draw") {
      const { low, high, material } = this.boxTo(...this.chart.point(event.clientX, event.clientY));
      this.edited.draw(low, high, material);
    }
    this.give();
  }

  /** Let go of what is dragged. */
  give() {
    this.drag = null;
    this.chart.draft = null;
    this.changed();
  }

  /** The box of the columns between where the drag began and a point, both among them. */
  boxTo(x, y) {
    const size = this.edited.size, ends = [this.drag.from, [x, y]];
    const column = (axis, choose) => clamp(Math.floor(choose(...ends.map((end) => end[axis]))), 0, size[axis] - 1);
    const value = (id) => Math.round(Number(document.getElementById(id).value)) || 0;
    const bottom = clamp(value("box-bottom"), 0, size[2] - 1), top = clamp(value("box-top"), bottom + 1, size[2]);
    const low = [column(0, Math.min), column(1, Math.min), bottom], high = [column(0, Math.max) + 1, column(1, Math.max) + 1, top];
    return { low, high, material: document.getElementById("material").value };
  }
}
