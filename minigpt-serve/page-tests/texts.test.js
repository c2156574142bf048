// Both languages: the same keys, the same places for values, the same figures; no text that nobody
// uses.
import { test } from "node:test";
import assert from "node:assert/strict";
import { readFileSync, readdirSync, statSync } from "node:fs";
import en from "../page/js/en.js";
import zh from "../page/js/zh.js";

const root = new URL("../page/", import.meta.url);
const files = (folder = "") =>
  readdirSync(new URL(folder, root)).flatMap((name) =>
    statSync(new URL(folder + name, root)).isDirectory()
      ? files(`${folder}${name}/`)
      : [folder + name],
  );
const sources = files()
  .filter((name) => name.endsWith(".js") && !/^js\/(en|zh)\.js$/.test(name))
  .map((name) => [name, readFileSync(new URL(name, root), "utf8")]);

test("both languages have the same keys", () =>
  assert.deepEqual(Object.keys(zh).sort(), Object.keys(en).sort()));

test("both have the same places for values, and no text is empty", () => {
  const places = (text) => [...text.matchAll(/\{(\w+)\}/g)].map((m) => m[1]).sort();
  for (const key of Object.keys(en)) {
    assert.deepEqual(places(zh[key]), places(en[key]), key);
    assert.ok(en[key].trim() && zh[key].trim(), key);
  }
});

test("Chinese is Chinese", () => {
  const same = Object.keys(en).filter(
    (key) => zh[key] === en[key] && /[a-z]{4}/.test(en[key]) && !/softmax|MLP/.test(en[key]),
  );
  assert.deepEqual(same, []);
});

test("every text that the page asks for is there, and every text is asked for", () => {
  const asked = new Set(),
    patterns = [];
  // A text for fingers stands in for the one without the ending.
  for (const key of Object.keys(en)) {
    const [base, ending] = key.split(/\.(?=touch$)/);
    if (ending) assert.ok(base in en, key);
  }
  for (const [, source] of sources) {
    for (const [, key] of source.matchAll(/\bt\(\s*"([^"]+)"/g)) asked.add(key);
    for (const [, key] of source.matchAll(/\bt\(\s*`([^`]+)`/g))
      patterns.push(new RegExp(`^${key.replace(/[.]/g, "\\.").replace(/\$\{[^}]*\}/g, ".+")}$`));
    for (const [, a, b] of source.matchAll(/\bt\([^"`;]*\?\s*"([^"]+)"\s*:\s*"([^"]+)"/g)) {
      asked.add(a);
      asked.add(b);
    }
  }
  assert.deepEqual(
    [...asked].filter((key) => !(key in en)),
    [],
    "asked for, but not there",
  );
  assert.deepEqual(
    Object.keys(en).filter(
      (key) =>
        !asked.has(key.replace(/\.touch$/, "")) && !patterns.some((pattern) => pattern.test(key)),
    ),
    [],
    "there, but nobody asks",
  );
  for (const pattern of patterns)
    assert.ok(
      Object.keys(en).some((key) => pattern.test(key)),
      String(pattern),
    );
});

test("chapters have a question, about ten paragraphs, two or three figures, tries and results; both languages the same figures", async () => {
  for (let n = 1; n <= 7; n++) {
    const [a, b] = await Promise.all(
      ["en", "zh"].map(async (lang) => (await import(`../page/js/learn/${lang}/${n}.js`)).default),
    );
    const figures = (chapter) =>
      chapter.body.filter((part) => typeof part === "object").map((part) => JSON.stringify(part));
    assert.deepEqual(figures(a), figures(b), `chapter ${n}`);
    for (const chapter of [a, b]) {
      const paragraphs = chapter.body.filter((part) => typeof part !== "object");
      assert.ok(/[?？]$/.test(chapter.title));
      assert.ok(
        paragraphs.length >= 8 && paragraphs.length <= 13,
        `chapter ${n} has ${paragraphs.length} paragraphs`,
      );
      assert.ok(chapter.try.length >= 3 && chapter.know.length >= 3);
      const living = chapter.body.filter((part) => part.figure).length;
      assert.ok(living >= 2 && living <= 4, `chapter ${n} has ${living} figures`);
    }
    assert.equal(a.body.length, b.body.length);
  }
});

test("the page is small, and asks for nothing from elsewhere", () => {
  const sizes = files().map((name) => statSync(new URL(name, root)).size);
  const all = sizes.reduce((a, b) => a + b, 0);
  assert.ok(all < 450_000, `${all} bytes`);
  for (const [name, source] of sources) {
    assert.ok(
      !/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/.test(source),
      `${name} parses markup or code`,
    );
    const elsewhere = [...source.matchAll(/https?:\/\/[^'"` )]+/g)]
      .map((m) => m[0])
      .filter((url) => !url.startsWith("http://www.w3.org/"));
    assert.deepEqual(elsewhere, [], name);
  }
});

test("a module is short enough to be read", () => {
  for (const [name, source] of sources) assert.ok(source.split("\n").length <= 500, name);
});
