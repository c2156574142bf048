import { test } from "node:test";
import assert from "node:assert/strict";
import { seriesOf, normSeries, merge, planned, roleMarks } from "../page/js/training/series.js";

const run = {
  name: "a",
  records: [
    { step: 1, loss: 4, tokens: 10, grad_norm: 2, grad_norms: { "h.0": 1, wte: 2 } },
    { step: 2, loss: 3, tokens: 20, val_loss: 3.5, grad_norm: 1 },
  ],
};

test("losses as a line, validation dashed, by step or tokens", () => {
  const [loss, val] = seriesOf([run], "tokens");
  assert.deepEqual(loss.points, [
    [10, 4],
    [20, 3],
  ]);
  assert.deepEqual([val.points, val.dashed], [[[20, 3.5]], true]);
  assert.deepEqual(seriesOf([run], "seconds"), [], "a run that does not say has no line");
});
test("norms by layer where one run is shown", () => {
  assert.deepEqual(
    normSeries([run], "step").map((s) => s.name),
    ["a", "h.0", "wte"],
  );
  assert.equal(normSeries([run, { ...run, name: "b" }], "step").length, 2);
});
test("new records follow, and a run taken back loses what comes again", () => {
  assert.deepEqual(
    merge(run, { records: [{ step: 3 }] }).records.map((r) => r.step),
    [1, 2, 3],
  );
  assert.deepEqual(
    merge(run, { records: [{ step: 2, loss: 9 }] }).records.map((r) => r.loss),
    [4, 9],
  );
  assert.equal(merge(run, {}).records.length, 2);
});

test("a run without samples so far is not one that writes none", () => {
  const run = (train) => ({ config: { train } });
  assert.equal(planned([run({ sample_interval: 50 }), run({})], "sample_interval"), 50);
  assert.equal(planned([run({ sample_interval: 0 }), {}], "sample_interval"), 0);
});

test("marks of roles name the run where several are shown", () => {
  const first = new Map([["induction", { step: 40, layer: 1, head: 2 }]]);
  const say = (role) => `${role} head`;
  assert.deepEqual(roleMarks(first, { of: null, say }), [
    { x: 40, row: 0, label: "induction head 1.2" },
  ]);
  assert.equal(roleMarks(first, { of: "night", say })[0].label, "night · induction head 1.2");
});
