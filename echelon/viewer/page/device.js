// WebGL2 in small: programs, buffers that grow, depth pictures.

/** A program with its uniforms by name. */
function buildProgram(gl, vertex, fragment) {
  const program = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
  const at = {};
  for (let i = 0; i < gl.getProgramParameter(program, gl.ACTIVE_UNIFORMS); i++) {
    const name = gl.getActiveUniform(program, i).name;
    at[name.replace("[0]", "")] = gl.getUniformLocation(program, name);
  }
  return { program, at };
}

/** Vertices that stay, of floats: `layout` lists the width of each attribute. */
function buildMesh(gl, floats, layout) {
  const vao = gl.createVertexArray(), buffer = gl.createBuffer();
  gl.bindVertexArray(vao);
  gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
  gl.bufferData(gl.ARRAY_BUFFER, floats, gl.STATIC_DRAW);
  layAttributes(gl, layout, 0);
  const stride = layout.reduce((a, b) => a + b, 0);
  return { vao, count: floats.length / stride };
}

function layAttributes(gl, layout, divisor) {
  const stride = layout.reduce((a, b) => a + b, 0);
  let first = 0;
  layout.forEach((width, location) => {
    gl.enableVertexAttribArray(location);
    gl.vertexAttribPointer(location, width, gl.FLOAT, false, stride * 4, first * 4);
    gl.vertexAttribDivisor(location, divisor);
    first += width;
  });
}

/** Many copies of a small shape, told anew every frame. */
class Swarm {
  constructor(gl, layout) {
    this.gl = gl;
    this.stride = layout.reduce((a, b) => a + b, 0);
    this.vao = gl.createVertexArray();
    this.buffer = gl.createBuffer();
    gl.bindVertexArray(this.vao);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffer);
    layAttributes(gl, layout, 1);
    this.values = new Float32Array(this.stride * 256);
    this.count = 0;
  }

  clear() {
    this.count = 0;
  }

  push(...numbers) {
    const begin = this.count * this.stride;
    if (begin + this.stride > this.values.length) {
      const wider = new Float32Array(this.values.length * 2);
      wider.set(this.values);
      this.values = wider;
    }
    this.values.set(numbers, begin);
    this.count++;
  }

  /** Farthest first, by the first three numbers of each along `away`. */
  sort(away) {
    const { stride, count, values } = this;
    const depth = (i) => dot(away, [values[i * stride], values[i * stride + 1], values[i * stride + 2]]);
    const order = Array.from({ length: count }, (_, i) => [depth(i), i]).sort((a, b) => b[0] - a[0]);
    const sorted = new Float32Array(count * stride);
    order.forEach(([, i], k) => sorted.set(values.subarray(i * stride, (i + 1) * stride), k * stride));
    values.set(sorted);
  }

  draw(mode, vertices) {
    if (!this.count) return;
    const { gl } = this;
    gl.bindVertexArray(this.vao);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffer);
    gl.bufferData(gl.ARRAY_BUFFER, this.values.subarray(0, this.count * this.stride), gl.STREAM_DRAW);
    gl.drawArraysInstanced(mode, 0, vertices, this.count);
  }
}

/** Indices of quads, four vertices each, shared by every chunk. */
class QuadIndex {
  constructor(gl) {
    this.gl = gl;
    this.buffer = gl.createBuffer();
    this.quads = 0;
  }

  reserve(quads) {
    if (quads <= this.quads) return;
    this.quads = Math.max(quads, this.quads * 2, 4096);
    const indices = new Uint32Array(this.quads * 6);
    for (let q = 0; q < this.quads; q++) indices.set([0, 1, 2, 0, 2, 3].map((i) => q * 4 + i), q * 6);
    this.gl.bindVertexArray(null);
    this.gl.bindBuffer(this.gl.ELEMENT_ARRAY_BUFFER, this.buffer);
    this.gl.bufferData(this.gl.ELEMENT_ARRAY_BUFFER, indices, this.gl.STATIC_DRAW);
  }
}

/** Quads of eight-byte vertices that are replaced as a whole. */
class QuadMesh {
  constructor(gl, index) {
    Object.assign(this, { gl, index, vao: gl.createVertexArray(), buffer: gl.createBuffer(), quads: 0 });
  }

  fill(list) {
    const { gl } = this;
    this.index.reserve(list.quads);
    gl.bindVertexArray(this.vao);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffer);
    gl.bufferData(gl.ARRAY_BUFFER, list.view, gl.DYNAMIC_DRAW);
    for (const location of [0, 1]) {
      gl.enableVertexAttribArray(location);
      gl.vertexAttribIPointer(location, 4, gl.UNSIGNED_BYTE, VERTEX_BYTES, location * 4);
    }
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.index.buffer);
    gl.bindVertexArray(null);
    this.quads = list.quads;
  }

  draw() {
    if (!this.quads) return;
    this.gl.bindVertexArray(this.vao);
    this.gl.drawElements(this.gl.TRIANGLES, this.quads * 6, this.gl.UNSIGNED_INT, 0);
  }

  release() {
    this.gl.deleteBuffer(this.buffer);
    this.gl.deleteVertexArray(this.vao);
  }
}

/** A depth picture that shadows are read from. */
function buildShade(gl, side) {
  const texture = gl.createTexture();
  gl.bindTexture(gl.TEXTURE_2D, texture);
  gl.texStorage2D(gl.TEXTURE_2D, 1, gl.DEPTH_COMPONENT24, side, side);
  const settings = {
    TEXTURE_COMPARE_MODE: gl.COMPARE_REF_TO_TEXTURE, TEXTURE_COMPARE_FUNC: gl.LEQUAL,
    TEXTURE_MIN_FILTER: gl.LINEAR, TEXTURE_MAG_FILTER: gl.LINEAR,
    TEXTURE_WRAP_S: gl.CLAMP_TO_EDGE, TEXTURE_WRAP_T: gl.CLAMP_TO_EDGE,
  };
  for (const [name, value] of Object.entries(settings)) gl.texParameteri(gl.TEXTURE_2D, gl[name], value);
  const frame = gl.createFramebuffer();
  gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
  gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, gl.TEXTURE_2D, texture, 0);
  gl.drawBuffers([gl.NONE]);
  gl.bindFramebuffer(gl.FRAMEBUFFER, null);
  return { texture, frame, side };
}
