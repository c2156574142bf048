// Errors of the server in Chinese, held against the server's own sources: each translation belongs to a
// message that exists, and each message that the page's questions can meet has one.
import { test } from "node:test";
import assert from "node:assert/strict";
import { readFileSync, readdirSync, statSync } from "node:fs";
import { said, CHINESE, patternOf } from "../page/js/messages.js";
import { use } from "../page/js/i18n.js";

const workspace = new URL("../../", import.meta.url);
const rust = (folder) =>
  readdirSync(new URL(folder, workspace)).flatMap((name) => {
    const path = `${folder}${name}`;
    if (statSync(new URL(path, workspace)).isDirectory()) return rust(`${path}/`);
    return name.endsWith(".rs") ? [path] : [];
  });
/** A source without line ends inside of its strings. */
const source = (path) =>
  readFileSync(new URL(path, workspace), "utf8")
    .replace(/\\\n\s*/g, "")
    .replaceAll('\\"', '"');
const crates = ["serve", "insight", "generate", "tokenizer", "chat"];
const all = crates
  .flatMap((crate) => rust(`minigpt-${crate}/src/`))
  .map(source)
  .join("\n");

/** Messages that the page's own requests can't meet. */
const NOT_FOR_THE_PAGE = [
  "the body is compressed",
  "the body is not UTF-8",
  "the body must be a JSON object",
  "the body can't be understood",
  "the body is more than one JSON value",
  "{name}: {why}",
];

test("every translated message is one that the server has", () => {
  for (const [english] of CHINESE) {
    // What stands between its values; their names may differ.
    const parts = english.split(/\{\w*\}/).filter((part) => part.trim().length > 3);
    for (const part of parts) assert.ok(all.includes(part), `no source says ${part}`);
  }
});

test("every message about the inside of a model and about runs has a translation", () => {
  const folders = ["minigpt-serve/src/inspect/", "minigpt-serve/src/runs/"];
  // The page reads no treebanks.
  const errors = source("minigpt-insight/src/error.rs").split("pub enum InvalidTreebank")[0];
  const ofInsight = [...errors.matchAll(/#\[error\(\s*"([^\n]{9,}?)"\s*\)\]/g)].map(
    ([, message]) => message,
  );
  assert.ok(ofInsight.length > 15, `${ofInsight.length} errors of minigpt-insight were found`);
  const found = folders
    .flatMap(rust)
    .map(source)
    .flatMap((text) => [
      ...text.matchAll(
        /Problem::\w+\(\s*(?:"\w+",\s*|StatusCode::\w+,\s*)?(?:format!\(\s*)?"((?:there|the|this|say|give|name|patching|both|heads|attribution|tokens|\{\w*\}) [^\n]*?)"(?:,|\)|\n|\.)/g,
      ),
    ])
    .map(([, message]) => message)
    .concat(ofInsight)
    // The page asks no question of which this is said.
    .filter((message) => !/has no effect here|not both/.test(message));
  assert.ok(found.length > 15, `${found.length} messages were found`);
  const known = (message) =>
    CHINESE.some(([english]) => {
      const filled = message.replace(/\{[^}]*\}/g, "7");
      return patternOf(english).test(filled);
    });
  assert.deepEqual(
    found.filter((message) => !known(message)),
    [],
  );
});

test("every message about the server as a whole has a translation, also one that is made before its problem", () => {
  const files = ["access", "backlog", "body", "budget", "job", "problem", "texts"].map(
    (name) => `minigpt-serve/src/${name}.rs`,
  );
  const folders = ["minigpt-serve/src/inspect/", "minigpt-serve/src/runs/"].flatMap(rust);
  const made =
    /(?:let message =|true =>|false =>|(?:Problem|Self)::(?:unavailable|new|bad)\(|refuse\()\s*(?:StatusCode::\w+,\s*)?&?(?:format!\(\s*)?"([a-zA-Z{][^\n]*? [^\n]*?)"(?:,|\)|;|\n)/g;
  const found = [...files, ...folders]
    .map(source)
    // What tests of Rust say is not said to a page.
    .map((text) => text.split("#[cfg(test)]")[0])
    .flatMap((text) => [...text.matchAll(made)])
    .map(([, message]) => message)
    .filter((message) => !NOT_FOR_THE_PAGE.some((part) => message.includes(part)));
  assert.ok(found.length > 20, `${found.length} messages were found`);
  const known = (message) => {
    const filled = message.replace(/\{[^}]*\}/g, "7");
    return CHINESE.some(([english]) => patternOf(english).test(filled));
  };
  assert.deepEqual(
    found.filter((message) => !known(message)),
    [],
  );
});

test("values come into the Chinese sentence", () => {
  use("zh");
  const chinese = (message) => said(message, "zh");
  assert.equal(
    chinese("patching needs two texts of equal length; these have 9 and 12 tokens"),
    "两段文字的词元数必须相同；现在分别是 9 个和 12 个。",
  );
  assert.equal(
    chinese(
      "This model's maximum context length is 128 tokens, but the prompt has 300. Shorten it: nothing is cut silently.",
    ),
    "这个模型最多能读 128 个词元，而这段文字有 300 个。请缩短一些。",
  );
  assert.equal(
    chinese(
      "This model's maximum context length is 128 tokens, and the prompt has as many, which leaves no room for an answer. Shorten it: nothing is cut silently.",
    ),
    "这个模型最多能读 128 个词元，而这段文字正好有这么多，没有地方写回答了。请缩短一些。",
  );
  assert.equal(
    chinese('there is no model "x.y" here; there is a, b'),
    '这里没有模型 "x.y"；有的是 a, b。',
  );
  assert.equal(chinese('there is no snapshot "a/9"'), '没有快照 "a/9"。');
  use("en");
});

test("English stays as it is, and a message that nobody translated says that it is English", () => {
  assert.equal(said("something new", "en"), "something new");
  use("zh");
  assert.equal(said("something new", "zh"), "服务器的说明（英文）：something new");
  use("en");
});
