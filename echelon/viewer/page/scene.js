// The battlefield drawn: ground, mechs, fire and marks, with shadows of the sun.

const TO_SUN = unit([-0.45, -0.62, 0.86]);
const GROUND_SHADE = 2048, MECH_SHADE = 1024;
const PAINTED_COLOURS = [[0.45, 0.72, 1.0], [1.0, 0.62, 0.35]];

class Scene {
  constructor(canvas) {
    const software = isSoftware();
    const gl = canvas.getContext("webgl2", { antialias: !software, stencil: true, powerPreference: "high-performance" });
    if (!gl) throw new NoWebGL();
    Object.assign(this, { canvas, gl, software });
    this.programs = {
      ground: buildProgram(gl, VOXEL_VERTEX, VOXEL_FRAGMENT), groundShade: buildProgram(gl, VOXEL_SHADOW, NOTHING_FRAGMENT),
      figure: buildProgram(gl, FIGURE_VERTEX, FIGURE_FRAGMENT), flat: buildProgram(gl, FIGURE_FLAT, FLAT_FRAGMENT),
      sky: buildProgram(gl, SKY_VERTEX, SKY_FRAGMENT), sprite: buildProgram(gl, SPRITE_VERTEX, SPRITE_FRAGMENT),
      ribbon: buildProgram(gl, RIBBON_VERTEX, RIBBON_FRAGMENT), ring: buildProgram(gl, RING_VERTEX, RING_FRAGMENT),
    };
    this.stage = {
      sprites: new Swarm(gl, [4, 4, 1]), ribbons: new Swarm(gl, [4, 4, 4, 4]), rings: new Swarm(gl, [4, 4, 4]),
    };
    this.groundShade = buildShade(gl, GROUND_SHADE);
    this.mechShade = buildShade(gl, MECH_SHADE);
    this.quadIndex = new QuadIndex(gl);
    this.bare = gl.createVertexArray();
    this.chunks = [];
    this.figures = {};
  }

  /** Take up another battle. */
  open(battle) {
    this.battle = battle;
    this.ground = new Ground(battle);
    this.mesher = new Mesher(this.ground);
    for (const chunk of this.chunks) for (const mesh of Object.values(chunk)) mesh.release();
    const count = this.ground.chunksX * this.ground.chunksY;
    const mesh = () => new QuadMesh(this.gl, this.quadIndex);
    this.chunks = Array.from({ length: count }, () => ({ opaque: mesh(), glass: mesh() }));
    this.palette = new Float32Array(33);
    this.ground.names.forEach((name, i) => this.palette.set(MATERIAL_COLOURS[name], i * 3));
    for (const mech of battle.mechs) {
      this.figures[mech.hull] ??= buildMesh(this.gl, buildFigure(mech.class, mech.half), [3, 3, 2]);
    }
    this.sunView = this.lookFromSun();
  }

  /** What the sun sees: the whole arena, without perspective. */
  lookFromSun() {
    const [x, y, z] = this.battle.size, middle = [x / 2, y / 2, 0];
    const look = lookAt(add(middle, scale(TO_SUN, x + y)), middle, [0, 0, 1]);
    const seen = [0, x].flatMap((a) => [0, y].flatMap((b) => [-1, z].map((c) => transform(look, [a, b, c]))));
    const range = (axis) => [Math.min(...seen.map((p) => p[axis])) - 1, Math.max(...seen.map((p) => p[axis])) + 1];
    const [left, right] = range(0), [bottom, top] = range(1), [far, near] = range(2);
    return multiply(orthographic(left, right, bottom, top, -near, -far), look);
  }

  /** Fit the drawing to the canvas as it is shown; without a graphics processor only what stands still is sharp. */
  resize(sharp) {
    const dense = this.software ? (sharp ? 2 : 1) : Math.min(window.devicePixelRatio || 1, 2);
    this.dense = dense;
    const wide = Math.max(Math.round(this.canvas.clientWidth * dense), 1), high = Math.max(Math.round(this.canvas.clientHeight * dense), 1);
    if (this.canvas.width !== wide || this.canvas.height !== high) Object.assign(this.canvas, { width: wide, height: high });
    return wide / high;
  }

  /** Draw a view: `{t, camera, theme, selected, isShown, showLines}`. */
  draw(view) {
    const { gl } = this;
    this.view = view;
    this.sky = SKIES[view.theme];
    this.palette.set(this.sky.plinth, PLINTH * 3);
    this.moment = this.battle.momentAt(view.t);
    this.actors = this.battle.mechs.filter((mech) => this.battle.isAlive(mech.n, view.t) && view.isShown(mech.n))
      .map((mech) => this.pose(mech, view.t));
    this.renewGround();
    this.shadeMechs();
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clear(gl.DEPTH_BUFFER_BIT | gl.STENCIL_BUFFER_BIT);
    this.matrix = view.camera.matrix();
    this.drawSky();
    gl.enable(gl.DEPTH_TEST);
    gl.enable(gl.CULL_FACE);
    this.drawGround("opaque", 1);
    this.drawHidden();
    this.drawFigures();
    this.setStage();
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.depthMask(false);
    this.drawGround("glass", 0.42);
    gl.disable(gl.CULL_FACE);
    this.drawStage();
    gl.depthMask(true);
    gl.disable(gl.BLEND);
  }

  pose(mech, t) {
    const pose = this.battle.pose(mech.n, t), condition = this.battle.condition(mech.n, this.moment);
    const sinks = pose.fallen * (mech.half[2] - mech.half[1] * 0.75);
    const model = placed(add(pose.pos, [0, 0, -sinks]), pose.yaw, pose.fallen * 1.42);
    return { mech, pose, condition, model };
  }

  renewGround() {
    const { gl, ground } = this;
    ground.seek(this.moment);
    if (!ground.dirty.size) return;
    for (const chunk of ground.dirty) {
      const lists = this.mesher.build(chunk);
      for (const [kind, mesh] of Object.entries(this.chunks[chunk])) mesh.fill(lists[kind]);
    }
    ground.dirty.clear();
    this.fires = ground.fires();
    const { at } = this.begin("groundShade", this.groundShade);
    gl.uniformMatrix4fv(at.uSunView, false, this.sunView);
    for (const chunk of this.chunks) chunk.opaque.draw();
  }

  /** Start drawing into a shade with one of the programs. */
  begin(program, shade) {
    const { gl } = this;
    gl.bindFramebuffer(gl.FRAMEBUFFER, shade.frame);
    gl.viewport(0, 0, shade.side, shade.side);
    gl.enable(gl.DEPTH_TEST);
    gl.depthMask(true);
    gl.clear(gl.DEPTH_BUFFER_BIT);
    gl.disable(gl.CULL_FACE);
    gl.useProgram(this.programs[program].program);
    return this.programs[program];
  }

  shadeMechs() {
    const { gl } = this;
    const { at } = this.begin("flat", this.mechShade);
    gl.uniformMatrix4fv(at.uView, false, this.sunView);
    for (const actor of this.actors) this.drawFigure(at, actor);
  }

  drawSky() {
    const { gl } = this, { program, at } = this.programs.sky;
    gl.disable(gl.DEPTH_TEST);
    gl.useProgram(program);
    gl.uniform3fv(at.uTop, this.sky.top);
    gl.uniform3fv(at.uBottom, this.sky.bottom);
    gl.bindVertexArray(this.bare);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
  }

  /** What every lit program needs. */
  light({ at }) {
    const { gl } = this;
    gl.uniformMatrix4fv(at.uView, false, this.matrix);
    gl.uniformMatrix4fv(at.uSunView, false, this.sunView);
    gl.uniform3fv(at.uToSun, TO_SUN);
    gl.uniform1f(at.uSun, this.sky.sun * 0.72);
    gl.uniform1f(at.uAmbient, this.sky.ambient);
    [this.groundShade, this.mechShade].forEach((shade, i) => {
      gl.activeTexture(gl.TEXTURE0 + i);
      gl.bindTexture(gl.TEXTURE_2D, shade.texture);
    });
    gl.uniform1i(at.uGroundShade, 0);
    gl.uniform1i(at.uMechShade, 1);
  }

  get zoneColour() {
    return zoneColour(this.battle, this.moment);
  }

  drawGround(kind, alpha) {
    const { gl } = this, ground = this.programs.ground, { at } = ground, { zones } = this.battle;
    gl.useProgram(ground.program);
    this.light(ground);
    gl.uniform3fv(at.uPalette, this.palette);
    // The last again, where there is one alone.
    gl.uniform3fv(at.uZones, [zones[0], zones.at(-1)].flatMap(({ center, radius }) => [...center, radius]));
    gl.uniform3fv(at.uZoneColour, this.zoneColour);
    gl.uniform1f(at.uAlpha, alpha);
    for (const chunk of this.chunks) chunk[kind].draw();
  }

  /** Mechs behind walls shine through in their team's colour. */
  drawHidden() {
    const { gl } = this, { program, at } = this.programs.flat;
    gl.useProgram(program);
    gl.uniformMatrix4fv(at.uView, false, this.matrix);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.depthMask(false);
    gl.depthFunc(gl.GREATER);
    gl.enable(gl.STENCIL_TEST);
    gl.stencilFunc(gl.EQUAL, 0, 1);
    gl.stencilOp(gl.KEEP, gl.KEEP, gl.INCR);
    for (const actor of this.actors) {
      gl.uniform4f(at.uColour, ...TEAM_COLOURS[actor.mech.side], 0.3);
      this.drawFigure(at, actor);
    }
    gl.disable(gl.STENCIL_TEST);
    gl.depthFunc(gl.LESS);
    gl.depthMask(true);
    gl.disable(gl.BLEND);
  }

  drawFigures() {
    const { gl } = this, figure = this.programs.figure, { at } = figure;
    gl.useProgram(figure.program);
    this.light(figure);
    for (const actor of this.actors) {
      const { mech, condition } = actor, hot = clamp((condition.heat - 0.7) / 0.6, 0, 1);
      const dim = condition.facts & FACT.SHUT_DOWN ? 1 : 0;
      gl.uniform3fv(at.uPaints, [
        ...TEAM_COLOURS[mech.side], 0.22, 0.24, 0.28, ...TEAM_LIGHT[mech.side], ...mix3(TEAM_LIGHT[mech.side], [1, 1, 0.9], 0.6), 0.5, 0.53, 0.58,
      ]);
      gl.uniform1f(at.uHeat, hot);
      gl.uniform1f(at.uDim, dim);
      gl.uniform1f(at.uFlash, condition.facts & FACT.UNDER_FIRE ? 0.05 : 0);
      this.drawFigure(at, actor);
    }
  }

  drawFigure(at, { mech, pose, model }) {
    const { gl } = this, mesh = this.figures[mech.hull];
    gl.uniformMatrix4fv(at.uModel, false, model);
    gl.uniform1f(at.uSwing, Math.sin((pose.walked / mech.half[2]) * 1.7) * 0.5 * (1 - pose.fallen));
    gl.uniform1f(at.uHip, 0);
    gl.bindVertexArray(mesh.vao);
    gl.drawArrays(gl.TRIANGLES, 0, mesh.count);
  }

  /** Put fire, smoke and marks on the stage. */
  setStage() {
    const { stage, battle, view } = this;
    for (const swarm of Object.values(stage)) swarm.clear();
    stageFire(stage, battle, view.t, view.isShown);
    stageBursts(stage, battle, view.t, view.isShown);
    stageFires(stage, this.fires, view.t);
    for (const { mech, pose, condition } of this.actors) {
      stageHull(stage, mech, pose, condition, view.t);
      this.markPaint(mech, pose, condition.paint);
    }
    this.markZone();
    this.markSelected();
  }

  markZone() {
    const colour = this.zoneColour;
    for (const { center, radius } of this.battle.zones) this.stage.rings.push(...center, 0.03, radius, radius, 4, 0, 0, ...colour, 0.3);
  }

  /** A ring at the feet for each pack that painted a mech. */
  markPaint(mech, pose, paint) {
    let reach = Math.hypot(mech.half[0], mech.half[1]) * 0.95;
    for (let pack = 0; pack < this.battle.packTeam.length; pack++) {
      if (!((paint >> pack) & 1)) continue;
      const foot = pose.pos[2] - mech.half[2] + 0.08;
      this.stage.rings.push(pose.pos[0], pose.pos[1], foot, reach, reach + 0.22, 0, 1, 0, ...PAINTED_COLOURS[this.battle.packTeam[pack]], 0.95);
      reach += 0.35;
    }
  }

  markSelected() {
    const { stage, view, battle } = this;
    const actor = this.actors.find(({ mech }) => mech.n === view.selected);
    if (!actor) return;
    const { mech, pose } = actor, reach = Math.hypot(mech.half[0], mech.half[1]) + 0.35;
    const foot = pose.pos[2] - mech.half[2] + 0.06;
    stage.rings.push(pose.pos[0], pose.pos[1], foot, reach, reach + 0.16, 0, 1, 0, 1, 1, 1, 0.95);
    stage.rings.push(pose.pos[0], pose.pos[1], foot, reach * 0.2, reach, 0, 1, 0, 1, 1, 1, 0.16);
    if (!view.showLines) return;
    for (const other of battle.linesOf(mech.n, this.moment)) {
      const seen = this.actors.find((one) => one.mech.n === other);
      if (!seen) continue;
      const colour = TEAM_LIGHT[seen.mech.side];
      stage.ribbons.push(...pose.pos, 0.015, ...seen.pose.pos, 0.015, ...colour, -0.5, ...colour, -0.5);
    }
  }

  drawStage() {
    const { gl, stage, programs, view } = this;
    const axes = view.camera.axes();
    gl.useProgram(programs.ring.program);
    gl.uniformMatrix4fv(programs.ring.at.uView, false, this.matrix);
    stage.rings.draw(gl.TRIANGLE_STRIP, 146);
    gl.useProgram(programs.ribbon.program);
    gl.uniformMatrix4fv(programs.ribbon.at.uView, false, this.matrix);
    gl.uniform2f(programs.ribbon.at.uPixels, this.canvas.width / 2, this.canvas.height / 2);
    gl.uniform1f(programs.ribbon.at.uZoom, this.canvas.height / 2 / Math.tan(view.camera.now.fov / 2));
    gl.uniform1f(programs.ribbon.at.uThin, 1.1 * this.dense);
    stage.ribbons.draw(gl.TRIANGLE_STRIP, 4);
    gl.useProgram(programs.sprite.program);
    gl.uniformMatrix4fv(programs.sprite.at.uView, false, this.matrix);
    gl.uniform3fv(programs.sprite.at.uRight, axes.right);
    gl.uniform3fv(programs.sprite.at.uUp, axes.up);
    gl.uniform3fv(programs.sprite.at.uBack, axes.back);
    gl.uniform3f(programs.sprite.at.uSunSide, dot(axes.right, TO_SUN), dot(axes.up, TO_SUN), dot(axes.back, TO_SUN));
    stage.sprites.sort(scale(axes.back, -1));
    stage.sprites.draw(gl.TRIANGLE_STRIP, 4);
  }
}

class NoWebGL extends Error {}

/** Whether the machine draws without a graphics processor, so that smoothing edges would cost too much. */
function isSoftware() {
  const gl = document.createElement("canvas").getContext("webgl2");
  if (!gl) return false;
  const info = gl.getExtension("WEBGL_debug_renderer_info");
  const name = info ? gl.getParameter(info.UNMASKED_RENDERER_WEBGL) : gl.getParameter(gl.RENDERER);
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  return /swiftshader|llvmpipe|software/i.test(name);
}
