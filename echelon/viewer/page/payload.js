// The data of the page: a replay as `echelon/viewer/payload.py` packs it.

const ARRAY_KINDS = {
  int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array,
};

/** Bytes of a base64 text. */
function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** Bytes before zlib compressed them. */
async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * One array: its first axis comes last, as differences along it, the low bytes of all before their high bytes.
 * Returns `{data, shape}` with the first axis still last, so that `data[i * shape[0] + m]` is row i at entry m.
 */
function readArray(bytes, begin, kind, shape) {
  const Kind = ARRAY_KINDS[kind];
  const count = shape.reduce((a, b) => a * b, 1);
  const wide = Kind.BYTES_PER_ELEMENT;
  const raw = new Uint8Array(count * wide);
  for (let b = 0; b < wide; b++) for (let i = 0; i < count; i++) raw[i * wide + b] = bytes[begin + b * count + i];
  const data = new Kind(raw.buffer);
  const length = shape[0];
  for (let i = 0; i < count; i++) if (i % length) data[i] += data[i - 1];
  return { data, shape };
}

/** Define an array that is decoded on first access, so that the page loads faster. */
function readWhenAsked(arrays, name, bytes, begin, kind, shape) {
  const get = () => {
    const value = readArray(bytes, begin, kind, shape);
    Object.defineProperty(arrays, name, { value, enumerable: true });
    return value;
  };
  Object.defineProperty(arrays, name, { get, enumerable: true, configurable: true });
}

/** The whole replay: `{about, observed, opaque, battles: [{about, decisions, arrays}], beside: [{about, observed, opaque}]}`. */
async function readReplay(base64) {
  const bytes = await inflate(bytesOf(base64));
  const headerBytes = new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + headerBytes)));
  let begin = 4 + headerBytes;
  for (const battle of header.battles) {
    const arrays = {};
    for (const [name, kind, shape] of battle.arrays) {
      readWhenAsked(arrays, name, bytes, begin, kind, shape);
      begin += shape.reduce((a, b) => a * b, 1) * ARRAY_KINDS[kind].BYTES_PER_ELEMENT;
    }
    battle.arrays = arrays;
  }
  return header;
}

/** Shared data of all battles in a battle's file: the first file, or a file added later. */
function fileOf(replay, kept) {
  return kept.beside === undefined ? replay : replay.beside[kept.beside];
}
