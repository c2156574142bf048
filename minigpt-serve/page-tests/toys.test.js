import { test } from "node:test";
import assert from "node:assert/strict";
import { mergeSteps, Bigram, beams } from "../page/js/learn/toys.js";
import { generator } from "../page/js/sampling.js";
import { TREES } from "../page/js/learn/trees.js";

test("the most frequent pair goes first, and nothing crosses a space", () => {
  const steps = mergeSteps("banana banana");
  assert.deepEqual(steps[1].pair, ["a", "n"]);
  assert.ok(steps.every((step) => step.pieces.join("") === "banana banana"));
  assert.deepEqual(steps.at(-1).pieces, ["banana", " ", "banana"]);
  assert.equal(mergeSteps("").length, 1);
});

test("a bigram model learns: its loss falls to the entropy of what follows", () => {
  const model = new Bigram("abababababac");
  const first = model.loss();
  assert.ok(Math.abs(first - Math.log(3)) < 1e-12, "without training all are equally likely");
  for (let i = 0; i < 4000; i++) model.step(1);
  const best = -(5 * Math.log(5 / 6) + Math.log(1 / 6)) / 11; // after a: b five times, c once; after b always a
  assert.ok(model.loss() >= best - 1e-9 && model.loss() < best + 0.01, `${model.loss()} ${best}`);
  assert.equal(model.sample(20, generator(1)).length, 20);
});

test("its gradient is the slope", () => {
  const text = "hello world hello",
    a = new Bigram(text),
    e = 1e-6;
  const b = new Bigram(text),
    before = a.loss();
  const [i, j] = [a.vocabulary.indexOf("l"), a.vocabulary.indexOf("o")];
  b.logits[i][j] += e;
  const slope = (b.loss() - before) / e;
  a.step(1);
  assert.ok(Math.abs(-a.logits[i][j] - slope) < 1e-5);
});

test("a wider beam finds what greedy misses, in both languages", () => {
  for (const tree of Object.values(TREES)) {
    const best = (width) => beams(tree, width, 3).at(-1).kept[0];
    assert.ok(best(3).probability > best(1).probability);
    for (const next of Object.values(tree))
      assert.ok(
        Math.abs(Object.values(next).reduce((a, b) => a + b, 0) - 1) < 1e-9,
        "probabilities sum to 1",
      );
  }
});
