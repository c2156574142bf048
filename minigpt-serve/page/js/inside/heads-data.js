// Attention as it travels: one head whole in f16, or all heads of a layer small in bytes.
import { inspect } from "../api.js";
import { halves, words } from "../half.js";
import { attentionScale } from "../parts/paint.js";
import { packed, renderCodes } from "../parts/heatmap.js";

/** One head: `weight(i, j)`, `row(i)`, `image()` with a pixel a cell. */
export async function oneHead({ model, ids, layer, head, signal }) {
  const buffer = await inspect("attention", { model, ids, layer, head }, { signal, binary: true });
  const codes = words(buffer),
    n = ids.length,
    value = halves();
  return {
    n,
    weight: (i, j) => value[codes[i * n + j]],
    row: (i) => Array.from({ length: n }, (_, j) => value[codes[i * n + j]]),
    image: () => renderCodes(n, n, codes, halfColours()),
  };
}

/**
 * The heads of a layer, at most `size` × `size` cells each (the greatest weight of those that a
 * cell stands for).
 */
export async function smallHeads({ model, ids, layer, size, heads, signal }) {
  const bytes = new Uint8Array(
    await inspect("attention", { model, ids, layer, size }, { signal, binary: true }),
  );
  const n = Math.min(size, ids.length),
    table = byteColours();
  return Array.from({ length: heads }, (_, head) =>
    renderCodes(n, n, bytes.subarray(head * n * n, (head + 1) * n * n), table),
  );
}

const tables = new Map();
function colours(kind, count, value) {
  const name = `${kind} ${document.documentElement.dataset.theme}`;
  if (!tables.has(name)) {
    const scale = attentionScale();
    tables.set(
      name,
      Uint32Array.from({ length: count }, (_, code) => packed(scale(value(code)))),
    );
  }
  return tables.get(name);
}
/** A byte is 255 times the root of a weight, so that small weights keep their differences. */
const byteColours = () => colours("byte", 256, (code) => (code / 255) ** 2);
const halfColours = () =>
  colours("half", 65536, (code) => {
    const x = halves()[code];
    return x >= 0 ? x : 0;
  });
