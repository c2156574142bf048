import { test } from "node:test";
import assert from "node:assert/strict";
import * as a from "../page/js/arithmetic.js";
import { close } from "./close.js";

const { EXAMPLES } = a;

test("layer norm of six numbers", () => {
  const { mean, deviation, output } = a.layerNorm(EXAMPLES.norm);
  close([mean, deviation], [70.6833, 76.9729], 5e-5);
  close(output, [-0.917, -0.9144, 0.3614, 0.6888, -0.9157, 1.6969], 5e-5);
});

test("one head, causal", () => {
  const { q, k, v } = EXAMPLES.head;
  const { weights, output } = a.attention(q, k, v, { hidden: a.causal });
  close(
    weights,
    [
      [1, 0, 0],
      [0.505, 0.495, 0],
      [0.3231, 0.2997, 0.3772],
    ],
    5e-5,
  );
  close(
    output,
    [
      [1.2, 0.8, 0.6, 0.4],
      [0.8535, 1.0475, 0.6495, 0.3505],
      [0.7639, 0.8367, 0.9318, 0.5586],
    ],
    5e-5,
  );
});

test("the restaurant: unscaled, scaled, with the third dish sold out", () => {
  const { q, k, v } = EXAMPLES.restaurant;
  const plain = a.attention([q], k, v);
  close(plain.raw, [[0.33, 1.21, 0.35]], 1e-9);
  close(a.softmaxRow(plain.raw[0]), [0.2257, 0.5441, 0.2302], 5e-5);
  close(plain.weights, [[0.2579, 0.4805, 0.2616]], 5e-5);
  close(plain.output, [[0.7445, 0.7297]], 5e-5);
  const masked = a.attention([q], k, v, { hidden: (_, j) => j === 2 });
  close(masked.weights, [[0.3493, 0.6507, 0]], 5e-5);
  close(masked.output, [[0.7603, 0.7048]], 5e-5);
});

test("GELU in both forms", () => {
  close(EXAMPLES.gelu.map(a.gelu), [-0.0455, -0.1587, 0, 0.8413, 1.9545], 5e-5);
  close(EXAMPLES.gelu.map(a.geluTanh), [-0.0454, -0.1588, 0, 0.8412, 1.9546], 5e-5);
});

test("erf at points of a table", () => {
  close(
    [0, 0.1, 0.5, 1, 2, 3, 5, -1].map(a.erf),
    [
      0, 0.1124629160182849, 0.5204998778130465, 0.8427007929497149, 0.9953222650189527,
      0.9999779095030014, 0.9999999999984626, -0.8427007929497149,
    ],
    1e-14,
  );
});

test("a row of nothing but masks gives zeros", () =>
  assert.deepEqual(a.softmaxRow([-Infinity, -Infinity]), [0, 0]));

test("sinusoidal positions", () =>
  close(a.sinusoid(3, 4), [Math.sin(3), Math.cos(3), Math.sin(0.03), Math.cos(0.03)], 1e-12));

test("parameters of GPT-2 small and of GPT-3", () => {
  const small = a.countParameters({
    n_layer: 12,
    n_embd: 768,
    vocab_size: 50257,
    n_positions: 1024,
  });
  assert.equal(small.total, 124439808);
  close(
    [small.embeddings / small.total, small.attention / small.total, small.mlp / small.total],
    [0.31, 0.23, 0.46],
    0.01,
  );
  assert.equal(
    a.countParameters({ n_layer: 96, n_embd: 12288, vocab_size: 50257, n_positions: 2048 }).total,
    174604259328,
  );
});
