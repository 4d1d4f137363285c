// Programs of the graphics processor.

const HEAD = `#version 300 es
precision highp float;
precision highp int;
const vec3 SUNLIGHT = vec3(1.07, 1.0, 0.88);
const vec3 SKYLIGHT = vec3(0.88, 0.95, 1.08);
`;

/** Sunlight on a point, 0..1: ground and mechs each cast a shadow. */
const SHADOW = `
uniform highp sampler2DShadow uGroundShade;
uniform highp sampler2DShadow uMechShade;
float sunlit(vec3 p) {
  return min(texture(uGroundShade, p), texture(uMechShade, p));
}
`;

const EARTH = "1u", LAVA = "2u", WATER = "3u", LEAVES = "9u", RUBBLE_CODE = "5u", WRECK_CODE = "6u";

/** Where a voxel's corner lies: low floors are lowered, leaves and rubble are rough. */
const VOXEL_PLACE = `
layout(location = 0) in uvec4 aPlace;
layout(location = 1) in uvec4 aLook;
float roll(uvec3 p) {
  uint h = p.x * 374761393u + p.y * 668265263u + p.z * 2147483629u;
  h = (h ^ (h >> 13)) * 1274126177u;
  return float((h ^ (h >> 16)) & 1023u) / 1023.0;
}
vec3 corner() {
  vec3 p = vec3(aPlace.xyz) - vec3(0.0, 0.0, float(aPlace.w) / 16.0);
  bool rough = aLook.y == LEAVES || aLook.y == RUBBLE || aLook.y == WRECK;
  float reach = aLook.y == LEAVES ? 0.26 : 0.5;
  vec3 shift = vec3(roll(aPlace.xyz), roll(aPlace.yzx + 7u), roll(aPlace.zxy + 13u)) - 0.5;
  return rough && aPlace.z > 0u ? p + shift * reach : p;
}
`.replaceAll("LEAVES", LEAVES).replaceAll("RUBBLE", RUBBLE_CODE).replaceAll("WRECK", WRECK_CODE);

const VOXEL_VERTEX = `${HEAD}${VOXEL_PLACE}
uniform mat4 uView;
uniform mat4 uSunView;
uniform vec3 uPalette[11];
uniform vec3 uToSun;
uniform float uSun;
uniform float uAmbient;
out vec3 vShaded;
out vec3 vSunny;
out vec3 vSunPlace;
out vec2 vGround;
/** Soft patches over the ground, 0..1. */
float patches(vec2 p) {
  vec2 cell = floor(p), k = smoothstep(0.0, 1.0, p - cell);
  uvec2 c = uvec2(cell);
  float a = roll(uvec3(c, 3u)), b = roll(uvec3(c.x + 1u, c.y, 3u));
  float d = roll(uvec3(c.x, c.y + 1u, 3u)), e = roll(uvec3(c + 1u, 3u));
  return mix(mix(a, b, k.x), mix(d, e, k.x), k.y);
}
const vec3 NORMALS[6] = vec3[6](
  vec3(1, 0, 0), vec3(-1, 0, 0), vec3(0, 1, 0), vec3(0, -1, 0), vec3(0, 0, 1), vec3(0, 0, -1));
void main() {
  vec3 p = corner();
  uint face = aLook.x & 7u;
  float open = float(aLook.x >> 3) / 3.0;
  float tint = float(aLook.z) / 255.0;
  vec3 normal = NORMALS[face];
  vec3 colour = uPalette[aLook.y] * (0.955 + 0.09 * tint);
  bool leaf = aLook.y == ${LEAVES};
  if (leaf) colour *= vec3(0.86 + 0.3 * tint, 0.9 + 0.18 * fract(tint * 7.0), 0.9);
  if (aLook.y == ${WRECK_CODE}) colour = mix(colour, fract(tint * 11.0) > 0.6 ? vec3(0.42, 0.44, 0.47) : vec3(0.4, 0.25, 0.16), 0.55 * fract(tint * 17.0));
  if (aLook.y == EARTH) colour *= mix(vec3(0.86, 0.87, 0.84), vec3(1.1, 1.07, 1.02), patches(p.xy / 9.0) * 0.7 + patches(p.xy / 3.5 + 40.0) * 0.3);
  float high = clamp(p.z / 10.0, 0.0, 1.0);
  float sky = uAmbient * (0.72 + 0.28 * normal.z) * (0.9 + 0.2 * high);
  vShaded = colour * SKYLIGHT * sky * mix(0.6, 1.0, open);
  vSunny = colour * SUNLIGHT * uSun * max(dot(normal, uToSun), 0.0) * mix(0.78, 1.0, open);
  float mottle = roll(aPlace.xyz);
  if (aLook.y == LAVA) { vShaded = mix(colour * 0.92, vec3(1.0, 0.8, 0.32), mottle * mottle * 0.9); vSunny = vec3(0.0); }
  if (aLook.y == WATER) { vShaded = mix(vShaded, uPalette[3] * 0.9, 0.3) * (0.94 + 0.12 * mottle); vSunny *= 0.55; }
  if (aLook.y == ${RUBBLE_CODE}) vShaded += vec3(0.5, 0.16, 0.02) * step(0.62, fract(tint * 5.3));
  vec4 sun = uSunView * vec4(p + normal * 0.05, 1.0);
  vSunPlace = sun.xyz * 0.5 + 0.5 - vec3(0.0, 0.0, 0.0012);
  vGround = p.xy;
  gl_Position = uView * vec4(p, 1.0);
}`.replaceAll("EARTH", EARTH).replaceAll("LAVA", LAVA).replaceAll("WATER", WATER);

const VOXEL_FRAGMENT = `${HEAD}${SHADOW}
uniform vec3 uZones[2];
uniform vec3 uZoneColour;
uniform float uAlpha;
in vec3 vShaded;
in vec3 vSunny;
in vec3 vSunPlace;
in vec2 vGround;
out vec4 oColour;
void main() {
  vec3 colour = vShaded + vSunny * sunlit(vSunPlace);
  float beyond = min(length(vGround - uZones[0].xy) - uZones[0].z, length(vGround - uZones[1].xy) - uZones[1].z);
  float tint = 0.16 * step(beyond, 0.0) + 0.5 * (1.0 - smoothstep(0.08, 0.2, abs(beyond)));
  colour = mix(colour, uZoneColour, tint);
  oColour = vec4(colour * uAlpha, uAlpha);
}`;

const VOXEL_SHADOW = `${HEAD}${VOXEL_PLACE}
uniform mat4 uSunView;
void main() { gl_Position = uSunView * vec4(corner(), 1.0); }`;

const NOTHING_FRAGMENT = `${HEAD}void main() {}`;

/** Where a point of a figure lies: legs swing about the hip. */
const FIGURE_PLACE = `
layout(location = 0) in vec3 aPos;
layout(location = 1) in vec3 aNormal;
layout(location = 2) in vec2 aPart;
uniform mat4 uModel;
uniform float uSwing;
uniform float uHip;
mat3 stride() {
  float a = aPart.y == 1.0 ? uSwing : aPart.y == 2.0 ? -uSwing : 0.0;
  float c = cos(a), s = sin(a);
  return mat3(c, 0, -s, 0, 1, 0, s, 0, c);
}
vec3 place() {
  vec3 hip = vec3(0.0, 0.0, uHip);
  return (uModel * vec4(stride() * (aPos - hip) + hip, 1.0)).xyz;
}
`;

const FIGURE_VERTEX = `${HEAD}${FIGURE_PLACE}
uniform mat4 uView;
uniform mat4 uSunView;
uniform vec3 uPaints[5];
uniform vec3 uToSun;
uniform float uSun;
uniform float uAmbient;
uniform float uHeat;
uniform float uDim;
uniform float uFlash;
out vec3 vShaded;
out vec3 vSunny;
out vec3 vSunPlace;
void main() {
  vec3 p = place();
  vec3 normal = normalize(mat3(uModel) * (stride() * aNormal));
  int paint = int(aPart.x + 0.5);
  vec3 colour = mix(uPaints[paint], vec3(dot(uPaints[paint], vec3(0.3))), uDim * 0.45) * (1.0 - 0.3 * uDim);
  float low = clamp((aPos.z - uHip) * 0.25 + 0.8, 0.6, 1.0);
  vShaded = colour * SKYLIGHT * (uAmbient + 0.1) * (0.75 + 0.25 * normal.z) * low;
  vSunny = colour * SUNLIGHT * uSun * max(dot(normal, uToSun), 0.0);
  if (paint == 3) { vShaded = colour * (1.0 - 0.85 * uDim); vSunny *= 0.2; }
  float glow = uHeat * (paint == 4 ? 0.75 : paint == 1 ? 0.3 : 0.06);
  vShaded = mix(vShaded, vec3(1.0, 0.36, 0.05), glow) + vec3(uFlash);
  vSunny *= 1.0 - glow;
  vec4 sun = uSunView * vec4(p + normal * 0.08, 1.0);
  vSunPlace = sun.xyz * 0.5 + 0.5 - vec3(0.0, 0.0, 0.0015);
  gl_Position = uView * vec4(p, 1.0);
}`;

const FIGURE_FRAGMENT = `${HEAD}${SHADOW}
in vec3 vShaded;
in vec3 vSunny;
in vec3 vSunPlace;
out vec4 oColour;
void main() { oColour = vec4(vShaded + vSunny * sunlit(vSunPlace), 1.0); }`;

const FIGURE_FLAT = `${HEAD}${FIGURE_PLACE}
uniform mat4 uView;
void main() { gl_Position = uView * vec4(place(), 1.0); }`;

const FLAT_FRAGMENT = `${HEAD}
uniform vec4 uColour;
out vec4 oColour;
void main() { oColour = vec4(uColour.rgb * uColour.a, uColour.a); }`;

const SKY_VERTEX = `${HEAD}
out float vHeight;
void main() {
  vec2 p = vec2(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0);
  vHeight = p.y * 0.5 + 0.5;
  gl_Position = vec4(p, 0.0, 1.0);
}`;

const SKY_FRAGMENT = `${HEAD}
uniform vec3 uTop;
uniform vec3 uBottom;
in float vHeight;
out vec4 oColour;
void main() { oColour = vec4(mix(uBottom, uTop, smoothstep(0.0, 1.0, vHeight)), 1.0); }`;

/**
 * Round things that face the camera; kind 0 glows, kind 1 is a lit puff, kind 2 a thin ring, kind 3 fire that veils.
 * They are as deep as they are wide, so that ground behind their middle does not cut them.
 */
const SPRITE_VERTEX = `${HEAD}
layout(location = 0) in vec4 aPlace;
layout(location = 1) in vec4 aColour;
layout(location = 2) in float aKind;
uniform mat4 uView;
uniform vec3 uRight;
uniform vec3 uUp;
uniform vec3 uBack;
out vec2 vAt;
out vec4 vColour;
flat out int vKind;
void main() {
  vAt = vec2(gl_VertexID & 1, gl_VertexID >> 1) * 2.0 - 1.0;
  vColour = aColour;
  vKind = int(aKind + 0.5);
  vec3 p = aPlace.xyz + (uRight * vAt.x + uUp * vAt.y) * aPlace.w;
  gl_Position = uView * vec4(p, 1.0);
  vec4 front = uView * vec4(p + uBack * aPlace.w, 1.0);
  if (front.w > 0.2) gl_Position.z = front.z / front.w * gl_Position.w;
}`;

const SPRITE_FRAGMENT = `${HEAD}
uniform vec3 uSunSide;
in vec2 vAt;
in vec4 vColour;
flat in int vKind;
out vec4 oColour;
void main() {
  float r2 = dot(vAt, vAt);
  if (r2 > 1.0) discard;
  if (vKind == 1) {
    float lit = 0.8 + 0.28 * dot(vec3(vAt, sqrt(1.0 - r2)), uSunSide);
    float cover = vColour.a * (1.0 - r2) * sqrt(1.0 - r2);
    oColour = vec4(vColour.rgb * lit * cover, cover);
  } else if (vKind == 2) {
    float line = smoothstep(0.7, 0.88, sqrt(r2)) * (1.0 - smoothstep(0.92, 1.0, sqrt(r2)));
    oColour = vec4(vColour.rgb * line * vColour.a, 0.0);
  } else {
    float glow = (1.0 - r2) * (1.0 - r2) * vColour.a;
    oColour = vec4(vColour.rgb * glow, vKind == 3 ? glow * 0.75 : 0.0);
  }
}`;

/** Beams and lines: ribbons that turn their broad side to the camera, never thinner than a pixel. */
const RIBBON_VERTEX = `${HEAD}
layout(location = 0) in vec4 aFrom;
layout(location = 1) in vec4 aTo;
layout(location = 2) in vec4 aFromColour;
layout(location = 3) in vec4 aToColour;
uniform mat4 uView;
uniform vec2 uPixels;
uniform float uZoom;
uniform float uThin;
out vec4 vColour;
out float vAcross;
void main() {
  vec4 a = uView * vec4(aFrom.xyz, 1.0), b = uView * vec4(aTo.xyz, 1.0);
  bool atEnd = (gl_VertexID & 1) == 1;
  float side = float(gl_VertexID >> 1) * 2.0 - 1.0;
  vec2 way = (b.xy / b.w - a.xy / a.w) * uPixels;
  vec2 across = length(way) > 1e-4 ? normalize(vec2(-way.y, way.x)) : vec2(0.0, 1.0);
  vec4 here = atEnd ? b : a;
  float wide = max((atEnd ? aTo.w : aFrom.w) * uZoom / here.w, uThin);
  here.xy += across * side * wide / uPixels * here.w;
  vColour = atEnd ? aToColour : aFromColour;
  vAcross = side;
  gl_Position = a.w < 0.2 || b.w < 0.2 ? vec4(2.0, 2.0, 2.0, 1.0) : here;
}`;

const RIBBON_FRAGMENT = `${HEAD}
in vec4 vColour;
in float vAcross;
out vec4 oColour;
void main() {
  float core = 1.0 - vAcross * vAcross;
  float solid = max(-vColour.a, 0.0);
  float light = abs(vColour.a) * core;
  vec3 colour = mix(vColour.rgb, vec3(1.0), solid > 0.0 ? 0.0 : 0.55 * core * core * core);
  oColour = vec4(colour * light, solid > 0.0 ? light : 0.0);
}`;

/** Rings and cylinders around an upright axis. */
const RING_VERTEX = `${HEAD}
layout(location = 0) in vec4 aPlace;
layout(location = 1) in vec4 aReach;
layout(location = 2) in vec4 aColour;
uniform mat4 uView;
out vec4 vColour;
void main() {
  float turn = float(gl_VertexID >> 1) / 72.0 * 6.28318530718;
  bool far = (gl_VertexID & 1) == 1;
  float radius = far ? aReach.x : aPlace.w;
  float high = far ? aReach.y : 0.0;
  vColour = vec4(aColour.rgb, aColour.a * (far ? aReach.z : 1.0));
  vec3 p = aPlace.xyz + vec3(radius * cos(turn), radius * sin(turn), high);
  gl_Position = uView * vec4(p, 1.0);
}`;

const RING_FRAGMENT = `${HEAD}
in vec4 vColour;
out vec4 oColour;
void main() { oColour = vec4(vColour.rgb * vColour.a, vColour.a * 0.7); }`;
