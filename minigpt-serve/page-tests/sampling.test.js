import { test } from "node:test";
import assert from "node:assert/strict";
import * as s from "../page/js/sampling.js";
import { close } from "./close.js";

test("softmax at three temperatures, as the specification has it", () => {
  close(
    s.softmax(s.temperature([1, 2, 3, 4, 5], 1)),
    [0.0117, 0.0317, 0.0861, 0.2341, 0.6364],
    5e-5,
  );
  close(s.softmax(s.temperature([1, 2, 3, 4, 5], 2)), [0.058, 0.0956, 0.1577, 0.26, 0.4287], 5e-5);
  close([s.softmax(s.temperature([1, 2, 3, 4, 5], 0.1))[4]], [0.99995], 5e-6);
});

test("top-k keeps what is as likely as the last; 0 and too many keep all", () => {
  assert.deepEqual([...s.topK([1, 3, 2, 2], 2)], [-Infinity, 3, 2, 2]);
  assert.deepEqual([...s.topK([1, 3], 0)], [1, 3]);
  assert.deepEqual([...s.topK([1, 3], 9)], [1, 3]);
});

test("top-p keeps the smallest set that reaches p", () => {
  const logits = [0.1, 0.5, 0.15, 0.25].map(Math.log);
  const kept = (p) => s.topP(logits, p).filter(Number.isFinite).length;
  assert.deepEqual([1e-9, 0.49, 0.6, 0.76, 0.95, 1].map(kept), [1, 1, 2, 3, 4, 4]);
  assert.deepEqual(
    [...s.topP([0, 0, 0, 0], 0.5)],
    [0, 0, -Infinity, -Infinity],
    "of equals the lower ids stay",
  );
});

test("min-p measures against the likeliest", () => {
  const logits = [0.5, 0.26, 0.24].map(Math.log);
  assert.deepEqual([...s.minP(logits, 0.5)].map(Number.isFinite), [true, true, false]);
});

test("filters leave nothing alone where nothing is left", () => {
  const nothing = [-Infinity, -Infinity];
  for (const f of [s.topK, s.topP, s.minP])
    assert.deepEqual([...f(nothing, f === s.topK ? 1 : 0.5)], nothing);
  assert.deepEqual([...s.softmax(nothing)], [0, 0]);
});

test("top-p equals a sort of everything on random logits with ties", () => {
  const random = s.generator(7);
  for (let round = 0; round < 200; round++) {
    const logits = Float32Array.from({ length: 1 + Math.floor(random() * 300) }, () =>
      random() < 0.2 ? 1.5 : random() * 18 - 9,
    );
    const p = 0.01 + 0.98 * random(),
      w = s.weights(logits);
    const order = [...w.keys()].sort((a, b) => w[b] - w[a] || a - b);
    const goal = p * w.reduce((a, b) => a + b, 0);
    const want = new Float32Array(logits.length).fill(-Infinity);
    let above = 0;
    for (const id of order) {
      if (above < goal) want[id] = logits[id];
      above += w[id];
    }
    assert.deepEqual(s.topP(logits, p), want);
  }
});

test("temperature 0 leaves the first of the likeliest", () => {
  assert.deepEqual([...s.process([1, 5, 5], { temperature: 0 })], [-Infinity, 5, -Infinity]);
});

test("the order is temperature, top-k, top-p, min-p", () => {
  const logits = [4, 3.9, 3, 0];
  const settings = { temperature: 0.5, top_k: 3, top_p: 0.95, min_p: 0.2 };
  const want = s.minP(s.topP(s.topK(s.temperature(logits, 0.5), 3), 0.95), 0.2);
  assert.deepEqual(s.process(logits, settings), want);
});

test("draws follow the probabilities", () => {
  const random = s.generator(1),
    counts = [0, 0, 0];
  for (let i = 0; i < 20000; i++) counts[s.draw([0.2, 0, 0.8], random)]++;
  assert.equal(counts[1], 0);
  assert.ok(Math.abs(counts[0] / 20000 - 0.2) < 0.01, String(counts));
});

test("the largest ids, lower ones first among equals, also of many", () => {
  assert.deepEqual(s.largest([1, 9, 9, 3], 3), [1, 2, 3]);
  const many = Float32Array.from({ length: 5000 }, (_, i) => (i * 7919) % 5003);
  const all = [...many.keys()].sort((a, b) => many[b] - many[a] || a - b);
  assert.deepEqual(s.largest(many, 10), all.slice(0, 10));
});

test("entropy in bits", () => close([s.entropy([0.5, 0.5, 0]), s.entropy([1])], [1, 0], 1e-12));
