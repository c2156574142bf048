// What are all the numbers? The pass of the selected token as a document; each step opens to its
// numbers.
import { h } from "../dom.js";
import { t, lang } from "../i18n.js";
import { inspect } from "../api.js";
import { nameOf } from "../tokens.js";
import { number, percent } from "../numbers.js";
import { floatsFromBase64 } from "../half.js";
import { softmax, largest } from "../sampling.js";
import { bars } from "../parts/bars.js";
import { tip } from "../parts/tip.js";

const FIRST = 8;

export default async function walk(chosen) {
  const { model, reading, at, layer, head, params, signal } = chosen;
  const [found, next] = await Promise.all([
    inspect("walk", { model: model.id, ids: reading.ids, at, layer, head }, { signal }),
    inspect("next", { model: model.id, ids: reading.ids, at }, { signal }),
  ]);
  const wanted = params.site;
  const list = h(
    "ol",
    { class: "walk" },
    found.walk.map((step) => card(step, wanted && step.site.includes(wanted))),
    choice(next),
  );
  if (wanted)
    requestAnimationFrame(() =>
      list.querySelector(".wanted")?.scrollIntoView({ block: "nearest" }),
    );
  return [
    h(
      "p",
      { class: "prose quiet" },
      t("walk.lead", { token: nameOf(reading.tokens[at]), position: at, layer, head }),
    ),
    list,
  ];
}

/** The end of the pass: logits become probabilities, and one token is taken. */
function choice(next) {
  const p = softmax(floatsFromBase64(next.logits)),
    best = largest(p, FIRST),
    names = new Map(next.top.map((token) => [token.id, nameOf(token)]));
  return h(
    "li",
    { class: "step" },
    h(
      "div",
      { class: "row spread" },
      h("code", "probabilities"),
      h("span", { class: "small quiet num" }, String(p.length)),
    ),
    h("p", t("walk.choice", { token: names.get(best[0]) ?? `#${best[0]}` })),
    h("p", { class: "mono small" }, "p = softmax(logits)"),
    bars({
      most: 1,
      label: t("token.probability"),
      rows: best.map((id) => ({
        name: names.get(id) ?? `#${id}`,
        value: p[id],
        text: percent(p[id]),
      })),
    }),
  );
}

function card(step, wanted) {
  const shape = step.tensor_shape.join(" × "),
    numbers = h("div", { class: "walk-numbers" }, values(step, FIRST));
  const more =
    step.values.length > FIRST &&
    h(
      "button",
      {
        type: "button",
        class: "plain",
        onclick: () => {
          numbers.replaceChildren(values(step, Infinity));
          more.remove();
        },
      },
      t("walk.all", { n: step.values.length }),
    );
  const norm =
    step.mean !== undefined &&
    h(
      "p",
      { class: "num small" },
      t("walk.norm", { mean: number(step.mean), deviation: number(step.deviation) }),
    );
  const before =
    step.before &&
    h(
      "div",
      { class: "small quiet" },
      t("walk.before"),
      " ",
      step.before
        .slice(0, FIRST)
        .map((x) => number(x, 3))
        .join("  "),
      step.before.length > FIRST ? " …" : "",
    );
  return h(
    "li",
    { class: `step${wanted ? " wanted" : ""}${step.layer === null ? "" : " inside-block"}` },
    h(
      "div",
      { class: "row spread" },
      h("code", step.site),
      h("span", { class: "small quiet num" }, shape),
    ),
    h("p", lang() === "zh" ? step.text_zh : step.text),
    h("p", { class: "mono small" }, step.formula),
    norm,
    before,
    h("div", { class: "row" }, numbers, more),
  );
}

function values(step, most) {
  const width = step.shape.at(-1),
    many = step.values.length,
    shown = Math.min(many, most);
  if (shown > 2048)
    return h(
      "pre",
      { class: "num all", tabindex: 0, "aria-label": t("walk.values") },
      step.values.map((x) => number(x === null ? -Infinity : x, 3)).join("  "),
    );
  const cells = [];
  for (let i = 0; i < shown; i++) {
    const cell = h(
      "span",
      { class: "num", tabindex: i < FIRST ? 0 : -1 },
      number(step.values[i] === null ? -Infinity : step.values[i], 3),
    );
    cells.push(
      tip(
        cell,
        () =>
          `[${step.shape.length > 1 ? `${Math.floor(i / width)}, ${i % width}` : i}] = ${step.values[i] === null ? "−∞" : step.values[i]}`,
      ),
    );
  }
  return h(
    "div",
    { class: "cells" },
    cells,
    many > shown ? h("span", { class: "quiet" }, "…") : null,
  );
}
