// From logits to a token, as minigpt-generate does it: temperature, top-k, top-p, min-p, in that
// order, with its numbers (logits in f32, sums in f64) and its rules for ties. A token that may not
// come has -Infinity.

/** Divides the logits by a temperature above 0. */
export function temperature(logits, t) {
  if (t === 1) return Float32Array.from(logits);
  const by = Math.fround(t);
  return Float32Array.from(logits, (x) => Math.fround(x) / by);
}

/** Leaves the k likeliest, and those as likely as the last of them; 0 leaves all. */
export function topK(logits, k) {
  if (k === 0 || k >= logits.length) return Float32Array.from(logits);
  const sorted = Float32Array.from(logits).sort(); // ascending
  const kth = sorted[sorted.length - k];
  return Float32Array.from(logits, (x) => (x < kth ? -Infinity : x));
}

/** Leaves the smallest set that reaches p, one token at least; of equals those with lower ids. */
export function topP(logits, p) {
  const out = Float32Array.from(logits);
  if (p >= 1) return out;
  const w = weights(out);
  let sum = 0;
  for (const x of w) sum += x;
  const goal = p * sum;
  const order = [];
  for (let id = 0; id < w.length; id++) if (w[id] > 0) order.push(id);
  order.sort((a, b) => w[b] - w[a] || a - b);
  let reached = 0,
    kept = order.length;
  for (let i = 0; i < order.length; i++) {
    reached += w[order[i]];
    if (reached >= goal) {
      kept = i + 1;
      break;
    }
  }
  for (const id of order.slice(kept)) out[id] = -Infinity;
  return out;
}

/** Leaves what has at least p times the probability of the likeliest. */
export function minP(logits, p) {
  const out = Float32Array.from(logits);
  if (p === 0) return out;
  const max = maximum(out);
  return out.map((x) => (Math.exp(x - max) < p ? -Infinity : x));
}

/** All four in order. Temperature 0 is greedy: only the likeliest (the first of equals) is left. */
export function process(logits, { temperature: t = 1, top_k = 0, top_p = 1, min_p = 0 }) {
  if (t === 0) {
    const best = argmax(logits);
    return Float32Array.from(logits, (x, id) => (id === best ? x : -Infinity));
  }
  return minP(topP(topK(temperature(logits, t), top_k), top_p), min_p);
}

/** Probabilities; all 0 where nothing is left. */
export function softmax(logits) {
  const w = weights(logits);
  let sum = 0;
  for (const x of w) sum += x;
  return sum === 0 ? w : w.map((x) => x / sum);
}

/** Probabilities up to a common factor: the likeliest has 1. */
export function weights(logits) {
  const max = maximum(logits);
  if (max === -Infinity) return new Float64Array(logits.length);
  return Float64Array.from(logits, (x) => Math.exp(x - max));
}

export function maximum(xs) {
  let max = -Infinity;
  for (const x of xs) if (x > max) max = x;
  return max;
}

export function argmax(xs) {
  let best = 0;
  for (let i = 1; i < xs.length; i++) if (xs[i] > xs[best]) best = i;
  return best;
}

/** The ids of the n largest, largest first, lower ids first among equals. */
export function largest(xs, n) {
  const ids = Uint32Array.from(xs, (_, i) => i);
  const before = (a, b) => xs[b] - xs[a] || a - b;
  if (n * 16 > xs.length) return Array.from(ids).sort(before).slice(0, n);
  const kth = Float32Array.from(xs).sort()[xs.length - n];
  return Array.from(ids.filter((i) => Math.fround(xs[i]) >= kth))
    .sort(before)
    .slice(0, n);
}

/** One id drawn with these probabilities; `random` gives numbers in [0, 1). */
export function draw(probabilities, random) {
  let left = random(),
    last = 0;
  for (let id = 0; id < probabilities.length; id++) {
    if (probabilities[id] === 0) continue;
    last = id;
    left -= probabilities[id];
    if (left < 0) return id;
  }
  return last;
}

/** A small seeded generator (mulberry32). */
export function generator(seed) {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let x = Math.imul(a ^ (a >>> 15), a | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 4294967296;
  };
}

/** How undecided a distribution is, in bits. */
export function entropy(probabilities) {
  let bits = 0;
  for (const p of probabilities) if (p > 0) bits -= p * Math.log2(p);
  return bits;
}
