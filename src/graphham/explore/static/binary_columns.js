// Reads columns as the server packs them: a JSON header, then plain arrays at their offsets.

const ARRAYS = { f4: Float32Array, i4: Int32Array, u4: Uint32Array, u2: Uint16Array, u1: Uint8Array, utf8: Uint8Array };

/** A column of text that is decoded only where somebody looks. */
export class TextColumn {
  /** @param {Uint8Array} bytes @param {Uint32Array} bounds */
  constructor(bytes, bounds) {
    this.bytes = bytes;
    this.bounds = bounds;
    this.length = bounds.length - 1;
    this.decoder = new TextDecoder();
  }
  /** @param {number} i */
  get(i) {
    return this.decoder.decode(this.bytes.subarray(this.bounds[i], this.bounds[i + 1]));
  }
}

/** @param {ArrayBuffer} buffer @returns {{meta: any, columns: Record<string, any>}} */
export function unpack(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  const meta = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  const start = 4 + size;
  const columns = {};
  for (const { name, type, offset, length } of meta.columns) {
    columns[name] = new ARRAYS[type](buffer, start + offset, length);
  }
  for (const { name, type } of meta.columns) {
    if (type === "utf8") columns[name] = new TextColumn(columns[name], columns[name + ":bounds"]);
  }
  return { meta, columns };
}
