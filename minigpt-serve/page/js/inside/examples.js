// Texts to begin with: examples of the data that the model was trained on, where its run names it; otherwise
// fixed texts, in the form that the model knows and in characters that it has.
import { lang } from "../i18n.js";
import { knows } from "../model.js";

const QUESTIONS = {
  en: ["What is the capital of Chile?", "What is the capital of France?", "智利的首都是哪里？"],
  zh: ["智利的首都是哪里？", "法国的首都是哪里？", "What is the capital of Chile?"],
};
const PLAIN = {
  en: [
    "The capital of France is",
    "Once upon a time, there was a",
    "To be, or not to be, that is the",
  ],
  zh: ["法国的首都是", "从前有一座山，山里有", "Once upon a time, there was a"],
};
const PLAIN_PAIRS = [
  ["The capital of France is", "The capital of Italy is"],
  ["法国的首都是", "德国的首都是"],
  ["To be, or not to be, that is the", "To see, or not to see, that is the"],
  ["从前有一座山，山里有", "从前有一条河，河里有"],
];
/** Answers that have begun stand where answers begin alike. */
const QUESTION_PAIRS = [
  ...[
    ["Chile", "Peru"],
    ["France", "Italy"],
  ].map((pair) => pair.map((country) => [`What is the capital of ${country}?`, "The capital of"])),
  ...[
    ["智利", "秘鲁"],
    ["法国", "日本"],
    ["意大利", "西班牙"],
  ].map((pair) => pair.map((country) => [`${country}的首都是哪里？`, ""])),
];
const FEW = 3;
/** Pairs of examples that are tried. */
const MOST_PAIRS = 10;
/** How much of their text two questions share at least to be a pair. */
const LEAST_SHARED = 0.6;

const isChinese = (text) => /[\u3400-\u9fff]/.test(text);
const asked = (example) => example.question ?? example.text;

/** Examples of a model's data, those in the language of the page first; none where its data is not known. */
export function own(model) {
  const all = model.origin?.examples ?? [];
  const mine = all.filter((example) => isChinese(asked(example)) === (lang() === "zh"));
  return [...mine, ...all.filter((example) => !mine.includes(example))];
}

/** A few of many, evenly. */
export const few = (all, n = FEW) =>
  Array.from(
    { length: Math.min(n, all.length) },
    (_, i) => all[Math.floor((i * all.length) / Math.min(n, all.length))],
  );

/** Examples in the language of the page, if there are enough of them; otherwise all. */
function chosen(model) {
  const all = own(model);
  const mine = all.filter((example) => isChinese(asked(example)) === (lang() === "zh"));
  return few(mine.length >= FEW ? mine : all);
}

/** Texts to look at, in the model's own format up to where it has to write. */
export function examples(model) {
  if (!model.tokenizer) return ["1 2 3 4 1 2 3"];
  const end = model.separator ?? "";
  const found = chosen(model).map((example) => asked(example) + end);
  if (found.length) return found;
  const fixed = model.separator ? QUESTIONS[lang()] : PLAIN[lang()];
  const known = fixed.filter((text) => knows(model, text)).map((text) => text + end);
  return known.length ? known : [somethingKnown(model) + end];
}

/** Where not one of the fixed texts can be written: the first letters of the vocabulary. */
const somethingKnown = (model) =>
  [...model.characters]
    .filter((c) => /\p{L}/u.test(c))
    .slice(0, 8)
    .join("") || [...model.characters].slice(0, 8).join("");

/** The same for Inside, where there is more to see after a few words of an answer. */
export function longer(model) {
  const texts = examples(model);
  if (!model.separator) return texts;
  const example = chosen(model).find(({ begun }) => begun);
  if (!example) return texts;
  const asking = example.question + model.separator;
  return [asking + example.begun, ...texts.filter((text) => text !== asking)];
}

/** How many characters two texts share at their beginning and at their end. */
function shared(a, b) {
  let from = 0;
  let end = 0;
  const least = Math.min(a.length, b.length);
  while (from < least && a[from] === b[from]) from++;
  while (end < least - from && a.at(-1 - end) === b.at(-1 - end)) end++;
  return from + end;
}

/** Pairs of questions of the data that share most of their text, in the page's language if it can be. */
export function alike(model) {
  const all = own(model).map(asked);
  const mine = all.filter((text) => isChinese(text) === (lang() === "zh"));
  const questions = mine.length >= FEW ? mine : all;
  const found = [];
  questions.forEach((a, i) =>
    questions.slice(i + 1).forEach((b) => {
      const share = shared(a, b) / Math.max(a.length, b.length);
      if (share >= LEAST_SHARED) found.push({ pair: [a, b], share });
    }),
  );
  found.sort((a, b) => b.share - a.share);
  // A question in several pairs would make the offers look alike.
  const used = new Set();
  return found
    .filter(
      ({ pair }) => !pair.some((text) => used.has(text)) && pair.every((text) => used.add(text)),
    )
    .map(({ pair }) => pair)
    .slice(0, MOST_PAIRS);
}

/**
 * Pairs of texts that differ in one thing. Whether they have equally many tokens depends on the model's
 * tokenizer.
 */
export function pairs(model) {
  if (!model.tokenizer) return [["1 2 3 4", "1 2 5 4"]];
  const end = model.separator ?? "";
  const found = alike(model).map((pair) => pair.map((text) => text + end));
  const fixed = model.separator
    ? QUESTION_PAIRS.map((pair) => pair.map(([question, answer]) => question + end + answer))
    : PLAIN_PAIRS;
  return [...found, ...fixed.filter((pair) => pair.every((text) => knows(model, text)))].slice(
    0,
    MOST_PAIRS,
  );
}

/** What to begin a chat with: a question, or for a model that goes on with texts a beginning. */
export function questions(model) {
  const found = chosen(model).map(asked);
  if (found.length) return found;
  const fixed = model.kind === "plain" ? PLAIN[lang()] : QUESTIONS[lang()];
  const known = fixed.filter((text) => knows(model, text));
  return known.length ? known : [somethingKnown(model)];
}

/**
 * The text to begin with: what the run's own samples begin with, so that it is the text that is shown
 * beside the loss; otherwise an example of its data.
 */
export function firstText(run, about) {
  const prompt = run.config?.sample?.prompt ?? "";
  return about.tokenizer && prompt.trim() ? prompt : examples(about)[0];
}
