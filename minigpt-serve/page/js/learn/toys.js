// Small models of the chapters that run in the browser: byte-pair merging, attention without
// positions, a bigram model trained live, a beam search. Pure.
import { attention, causal } from "../arithmetic.js";

/** Four tokens, a vector each. */
const TOKENS = [
  [0.9, -0.3, 0.4],
  [-0.5, 0.8, 0.1],
  [0.2, 0.6, -0.7],
  [0.5, 0.1, 0.9],
];

/**
 * How far the last token's vector moves if the first two of four tokens change places, after so many
 * layers of causal attention, each added to the stream, without any positions.
 */
export function movedBySwap(layers) {
  const last = (order) => {
    let x = order.map((i) => TOKENS[i]);
    for (let l = 0; l < layers; l++) {
      const { output } = attention(x, x, x, { hidden: causal, scale: 1 });
      x = x.map((row, i) => row.map((value, c) => value + output[i][c]));
    }
    return x.at(-1);
  };
  const [before, after] = [last([0, 1, 2, 3]), last([1, 0, 2, 3])];
  return Math.hypot(...before.map((value, c) => value - after[c]));
}

/**
 * The steps of byte-pair encoding on a text: `[{ pieces, pair, count }]`, the first without a
 * merge. Pieces begin as characters  (a reader can follow those; the real one begins with bytes),
 * and no piece crosses a space.
 */
export function mergeSteps(text, most = 30) {
  let pieces = [...text].slice(0, 400);
  const steps = [{ pieces, pair: null, count: 0 }];
  for (let i = 0; i < most; i++) {
    const counts = new Map();
    for (let j = 0; j + 1 < pieces.length; j++) {
      const [a, b] = [pieces[j], pieces[j + 1]];
      if (/\s$/.test(a) || /^\s/.test(b)) continue;
      const key = JSON.stringify([a, b]);
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    let best = null,
      most_ = 1;
    for (const [key, count] of counts)
      if (count > most_) {
        best = key;
        most_ = count;
      }
    if (!best) break;
    const [a, b] = JSON.parse(best),
      next = [];
    for (let j = 0; j < pieces.length; j++)
      if (pieces[j] === a && pieces[j + 1] === b) {
        next.push(a + b);
        j++;
      } else next.push(pieces[j]);
    pieces = next;
    steps.push({ pieces, pair: [a, b], count: most_ });
  }
  return steps;
}

/**
 * A bigram model over the characters of a text: a table of logits, trained by gradient descent on
 * the next-character loss.
 */
export class Bigram {
  constructor(text) {
    this.vocabulary = [...new Set(text)].sort();
    const id = new Map(this.vocabulary.map((c, i) => [c, i]));
    const ids = [...text].map((c) => id.get(c)),
      v = this.vocabulary.length;
    this.counts = Array.from({ length: v }, () => new Float64Array(v));
    for (let i = 0; i + 1 < ids.length; i++) this.counts[ids[i]][ids[i + 1]]++;
    this.logits = Array.from({ length: v }, () => new Float64Array(v));
    this.pairs = ids.length - 1;
  }
  probabilities(row) {
    const max = Math.max(...this.logits[row]),
      e = this.logits[row].map((x) => Math.exp(x - max)),
      sum = e.reduce((a, b) => a + b, 0);
    return e.map((x) => x / sum);
  }
  loss() {
    let sum = 0;
    this.counts.forEach((row, i) => {
      if (row.some((n) => n)) {
        const p = this.probabilities(i);
        row.forEach((n, j) => {
          if (n) sum -= n * Math.log(p[j]);
        });
      }
    });
    return sum / this.pairs;
  }
  /**
   * One step against the gradient, (p − 1[next]) / pairs for every logit; gives the loss before it.
   */
  step(rate) {
    const before = this.loss();
    this.counts.forEach((row, i) => {
      const total = row.reduce((a, b) => a + b, 0);
      if (!total) return;
      const p = this.probabilities(i);
      for (let j = 0; j < row.length; j++)
        this.logits[i][j] -= (rate * (total * p[j] - row[j])) / this.pairs;
    });
    return before;
  }
  sample(length, random) {
    let at = Math.floor(random() * this.vocabulary.length),
      out = "";
    for (let i = 0; i < length; i++) {
      const p = this.probabilities(at);
      let left = random();
      at = p.findIndex((x) => (left -= x) < 0);
      if (at < 0) at = p.length - 1;
      out += this.vocabulary[at];
    }
    return out;
  }
}

/**
 * Beam search over a tree: `tree[prefix]` is `{ word: probability }`. `[{ words, probability }]` at
 * each depth.
 */
export function beams(tree, width, depth) {
  let kept = [{ words: [], probability: 1 }];
  const levels = [];
  for (let d = 0; d < depth; d++) {
    const grown = kept.flatMap((beam) =>
      Object.entries(tree[beam.words.join(" ")] ?? {}).map(([word, p]) => ({
        words: [...beam.words, word],
        probability: beam.probability * p,
      })),
    );
    if (!grown.length) break;
    grown.sort((a, b) => b.probability - a.probability);
    kept = grown.slice(0, width);
    levels.push({ kept, dropped: grown.slice(width) });
  }
  return levels;
}
