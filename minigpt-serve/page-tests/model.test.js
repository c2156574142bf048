// What the page says about the loaded model comes from what the server says about it.
import { test } from "node:test";
import assert from "node:assert/strict";
import { use } from "../page/js/i18n.js";
import {
  cutByContext,
  defaultsOf,
  factsOf,
  knows,
  missing,
  onlyAnswers,
  untilEnd,
} from "../page/js/model.js";
import {
  alike,
  examples,
  firstText,
  longer,
  pairs,
  questions,
} from "../page/js/inside/examples.js";
import { PLAIN, paramsOf, remaining, settingsOf } from "../page/js/settings.js";
import { movedBySwap } from "../page/js/learn/toys.js";

const config = { n_embd: 96, n_layer: 3, n_head: 3, norm_position: "pre", norm_bias: true };
const pair = (question, answer) => ({ question, answer });
const asking = {
  id: "a",
  tokenizer: true,
  separator: "<sep>",
  kind: "questions",
  config,
  inner: 384,
  ends: ["<sep>"],
  defaults: { temperature: 0, top_k: 40, top_p: 1, min_p: 0 },
  origin: {
    loss_on: "answer",
    optimizer: "muon",
    examples: [
      { ...pair("Who wrote Emma?", "Jane Austen wrote it"), begun: "Jane Austen wrote" },
      pair("Who wrote Ulysses?", "James Joyce wrote it"),
      pair("谁写了《红楼梦》？", "曹雪芹"),
      pair("What is 2 + 3?", "5"),
      pair("Who wrote Dracula?", "Bram Stoker wrote it"),
    ],
  },
};
const plain = {
  id: "p",
  tokenizer: true,
  separator: null,
  kind: "plain",
  config,
  inner: 384,
  ends: [],
};

test("examples come from the data of the model's run, those in the page's language first", () => {
  use("en");
  assert.deepEqual(questions(asking), ["Who wrote Emma?", "Who wrote Ulysses?", "What is 2 + 3?"]);
  assert.deepEqual(examples(asking)[0], "Who wrote Emma?<sep>");
  assert.equal(longer(asking)[0], "Who wrote Emma?<sep>Jane Austen wrote");
  use("zh");
  assert.ok(questions(asking).includes("谁写了《红楼梦》？"));
  use("en");
});

test("pairs to be compared are questions of the data that share most of their text", () => {
  assert.deepEqual(alike(asking)[0], ["Who wrote Emma?", "Who wrote Dracula?"]);
  assert.deepEqual(pairs(asking)[0], ["Who wrote Emma?<sep>", "Who wrote Dracula?<sep>"]);
});

test("without its data a model gets fixed texts, but none in characters that it lacks", () => {
  use("en");
  assert.equal(examples(plain)[0], "The capital of France is");
  const chinese = { ...plain, characters: "法国的首都是北京东" };
  assert.deepEqual(examples(chinese), ["法国的首都是北京"], "the vocabulary's own characters");
  const english = {
    ...plain,
    characters: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ,-'",
  };
  assert.ok(examples(english).every((text) => knows(english, text)));
  for (const [a, b] of pairs(english)) assert.ok(knows(english, a) && knows(english, b));
  assert.deepEqual(examples({ ...plain, tokenizer: false }), ["1 2 3 4 1 2 3"]);
});

test("the snapshots of a run begin with the prompt of its own samples, otherwise with an example", () => {
  use("en");
  const run = (prompt) => ({ config: { sample: { prompt } } });
  assert.equal(firstText(run("ROMEO:"), asking), "ROMEO:");
  assert.equal(firstText(run("\n"), asking), "Who wrote Emma?<sep>");
  assert.equal(firstText({ config: {} }, asking), "Who wrote Emma?<sep>");
});

test("characters that a vocabulary lacks are named once, special tokens are none", () => {
  const model = { ...asking, characters: "你听？" };
  assert.deepEqual(missing(model, "你喜欢听音乐吗？喜<sep>"), ["喜", "欢", "音", "乐", "吗"]);
  assert.deepEqual(missing({ ...asking, characters: null }, "你喜欢"), []);
  assert.ok(!knows(model, "喜") && knows(model, "你"));
});

test("the sliders of the chat begin at the model's defaults, and an address names only changes", () => {
  const defaults = defaultsOf(asking);
  assert.equal(settingsOf({}, defaults).temperature, 0);
  assert.equal(settingsOf({ t: "1" }, defaults).temperature, 1, "1 is a change here");
  assert.deepEqual(paramsOf({ ...defaults, temperature: 1 }, defaults), {
    t: 1,
    k: null,
    p: null,
    m: null,
  });
  assert.deepEqual(settingsOf({}), PLAIN, "elsewhere they begin at the plain distribution");
  assert.deepEqual(defaultsOf({}), PLAIN);
});

test("what remains of a distribution is only said to be rescaled where something was removed", () => {
  use("en");
  assert.equal(remaining({ kept: 65, all: 65, mass: 1 }), "All 65 tokens remain.");
  assert.match(remaining({ kept: 9, all: 65, mass: 0.8 }), /80\.0 % .*rescaled to 100 %/);
  assert.doesNotMatch(remaining({ kept: 9, all: 65, mass: 0.9999999 }), /100 %/);
  assert.match(remaining({ kept: 1, all: 65, mass: 0.4, greedy: true }), /^Greedy.*40\.0 %/);
});

test("the chapters' sentences about the model follow its configuration and its run", async () => {
  const variants = [
    null,
    asking,
    plain,
    { ...asking, origin: { ...asking.origin, optimizer: "adamw" } },
    {
      ...plain,
      ends: undefined,
      config: {
        ...config,
        norm_position: "post",
        norm_bias: false,
        position_embedding: "none",
        activation_function: "relu",
      },
    },
  ];
  for (const language of ["en", "zh"])
    for (let n = 1; n <= 7; n++) {
      const chapter = (await import(`../page/js/learn/${language}/${n}.js`)).default;
      for (const model of variants)
        for (const part of [...chapter.body, ...chapter.try, ...chapter.know]) {
          const text = typeof part === "function" ? part(factsOf(model)) : part;
          if (typeof text === "string")
            assert.doesNotMatch(text, /undefined|null|\[object|true|false/, `${language} ${n}`);
        }
    }
  const told = async (n, model, language = "en") => {
    const chapter = (await import(`../page/js/learn/${language}/${n}.js`)).default;
    return [...chapter.body, ...chapter.know, ...chapter.try]
      .map((part) => (typeof part === "function" ? part(factsOf(model)) : part))
      .filter((part) => typeof part === "string")
      .join("\n");
  };
  assert.match(await told(6, asking), /loaded model used Muon/);
  assert.match(await told(6, variants[3]), /loaded model used AdamW/);
  assert.doesNotMatch(await told(6, plain), /loaded model used|we use/);
  assert.match(await told(6, asking, "zh"), /当前模型训练时，各层里的权重表用的是 Muon/);
  assert.match(await told(5, asking), /3 in the loaded model/);
  assert.match(await told(5, variants[4]), /drawn above, is post-norm/);
  assert.doesNotMatch(await told(5, variants[4]), /The bars add up|final norm/);
  assert.match(await told(4, variants[4]), /the loaded one doesn’t.*|uses ReLU/);
  assert.match(await told(7, asking), /here `<sep>`, or/);
  assert.match(await told(7, plain), /the loaded one has none/);
  assert.ok(onlyAnswers(asking) && !onlyAnswers(plain));
});

test("without positions a swap is not noticed by one layer, but by two", async () => {
  assert.ok(movedBySwap(1) < 1e-12, `${movedBySwap(1)}`);
  assert.ok(movedBySwap(2) > 0.01, `${movedBySwap(2)}`);
  for (const language of ["en", "zh"]) {
    const chapter = (await import(`../page/js/learn/${language}/2.js`)).default;
    assert.doesNotMatch(JSON.stringify(chapter), /could not notice a swap|根本察觉不到/);
  }
});

test("an answer that ends with the context does not say that it was as long as asked for", () => {
  assert.ok(cutByContext({ most: 120, usage: { completion_tokens: 60 } }));
  assert.ok(!cutByContext({ most: 120, usage: { completion_tokens: 120 } }));
  assert.ok(!cutByContext({ most: 120 }));
});

test("what a model would go on with is shown up to the token that ends its answers", () => {
  assert.equal(untilEnd("Madrid.<sep>I don't know", asking), "Madrid.<sep>");
  assert.equal(untilEnd("Madrid.<sep>I don't know", plain), "Madrid.<sep>I don't know");
  assert.equal(untilEnd("Madrid", asking), "Madrid");
});
