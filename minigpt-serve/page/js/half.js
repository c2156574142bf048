// Numbers as they travel: half precision (f16), bytes, base64.

/** The value of an f16 given as its 16 bits. */
export function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1,
    exponent = (bits >> 10) & 31,
    fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

let table = null;
/** The value of every f16, made once. */
export function halves() {
  return (table ??= Float32Array.from({ length: 65536 }, (_, bits) => fromHalf(bits)));
}

/** The numbers of a little-endian f32 array in base64. */
export function floatsFromBase64(text) {
  const binary = atob(text),
    bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  const view = new DataView(bytes.buffer),
    out = new Float32Array(bytes.length >> 2);
  for (let i = 0; i < out.length; i++) out[i] = view.getFloat32(4 * i, true);
  return out;
}

/** The 16-bit words of a buffer. */
export function words(buffer) {
  const view = new DataView(buffer),
    out = new Uint16Array(buffer.byteLength >> 1);
  for (let i = 0; i < out.length; i++) out[i] = view.getUint16(2 * i, true);
  return out;
}
