import { test } from "node:test";
import assert from "node:assert/strict";
import { titleOf } from "../page/js/title.js";

const at = (place, params = {}) => ({ place, params });

test("a tab says what it shows: the model, or the runs", () => {
  const model = { id: "best" };
  assert.equal(titleOf(at("chat"), { name: "Chat", model }), "Chat · best · MiniGPT");
  assert.equal(titleOf(at("learn"), { name: "Learn", model: null }), "Learn · MiniGPT");
  const training = (params, runs) =>
    titleOf(at("training", params), { name: "Training", model, runs });
  assert.equal(training({ runs: "a,b" }), "Training · a, b · MiniGPT");
  assert.equal(training({}), "Training · MiniGPT", "the runs are not known yet");
  assert.equal(training({}, ["night"]), "Training · night · MiniGPT", "the one that is shown");
  assert.equal(training({ runs: "gone" }, ["night"]), "Training · night · MiniGPT");
  assert.equal(training({ runs: "" }, []), "Training · MiniGPT");
});
