// Figures of chapter 7: temperature, filters on the model, four settings side by side, beams.
import { h, fill } from "../../dom.js";
import { t, lang } from "../../i18n.js";
import { inspect, json } from "../../api.js";
import { floatsFromBase64 } from "../../half.js";
import { EXAMPLES } from "../../arithmetic.js";
import { fixed, percent } from "../../numbers.js";
import { softmax, temperature as heat } from "../../sampling.js";
import { visible } from "../../tokens.js";
import { bars } from "../../parts/bars.js";
import { slider } from "../../parts/slider.js";
import { show } from "../../parts/message.js";
import { distribution } from "../../inside/next.js";
import { beams as search } from "../toys.js";
import { TREES } from "../trees.js";
import { typed, read, note, example } from "./part.js";

export function temperature() {
  const out = h("div"),
    logits = EXAMPLES.softmax;
  const draw = (T) => {
    const p = softmax(heat(logits, T));
    fill(
      out,
      bars({
        most: 1,
        rows: logits.map((x, i) => ({ name: `l = ${x}`, value: p[i], text: fixed(p[i], 4) })),
      }),
    );
  };
  draw(1);
  return [
    slider({
      label: t("temperature"),
      value: 1,
      least: 0.1,
      most: 3,
      step: 0.05,
      format: (x) => x.toFixed(2),
      oninput: draw,
    }),
    out,
  ];
}

export function next(ctx) {
  const plain = { temperature: 1, top_k: 0, top_p: 1, min_p: 0 };
  if (!ctx.model)
    return [
      note(t("figure.no_model")),
      distribution({
        logits: Float32Array.from([5, 4.2, 3.9, 3, 2.6, 2.2, 1.5, 1, 0.4, 0, -0.5, -1]),
        names: "ABCDEFGHIJKL".split("").map((token, id) => ({ id, token })),
        settings: plain,
      }),
    ];
  return typed({
    ctx,
    text: example(ctx),
    label: t("figure.type"),
    height: 480,
    make: async (text) => {
      const { ids } = await read(ctx, text);
      const answer = await inspect(
        "next",
        { model: ctx.model.id, ids, at: ids.length - 1 },
        { signal: ctx.signal },
      );
      return distribution({
        logits: floatsFromBase64(answer.logits),
        names: answer.top,
        model: ctx.model,
        settings: plain,
      });
    },
  });
}

const FOUR = [
  ["greedy", { temperature: 0 }],
  ["cool", { temperature: 0.7, top_p: 0.9 }],
  ["plain", { temperature: 1 }],
  ["hot", { temperature: 1.6 }],
];

export function four(ctx) {
  if (!ctx.model?.tokenizer) return note(t("figure.no_model"));
  return typed({
    ctx,
    text: example(ctx),
    label: t("figure.type"),
    height: 200,
    wait: 600,
    make: async (text) => {
      const out = h("div");
      const draw = (seed) =>
        show(
          out,
          async () => {
            const all = await Promise.all(
              FOUR.map(([, settings]) =>
                json("/v1/completions", {
                  signal: ctx.signal,
                  body: { model: ctx.model.id, prompt: text, max_tokens: 24, seed, ...settings },
                }),
              ),
            );
            return h(
              "div",
              { class: "two" },
              FOUR.map(([name, settings], i) =>
                h(
                  "section",
                  { class: "panel" },
                  h("strong", t(`figure.four.${name}`)),
                  h(
                    "small",
                    { class: "quiet num" },
                    ` T = ${settings.temperature}${settings.top_p ? `, top-p = ${settings.top_p}` : ""}`,
                  ),
                  h("p", { class: "mono goes-on", dir: "auto" }, visible(all[i].choices[0].text)),
                ),
              ),
            );
          },
          { signal: ctx.signal, height: 180 },
        );
      let seed = 1;
      draw(seed);
      return [
        out,
        h("button", { type: "button", onclick: () => draw(++seed) }, t("figure.four.again")),
      ];
    },
  });
}

export function beams() {
  const out = h("div"),
    tree = TREES[lang()],
    space = lang() === "zh" ? "" : " ";
  const draw = (width) => {
    const levels = search(tree, width, 3);
    fill(
      out,
      h(
        "div",
        { class: "beam-levels" },
        levels.map(({ kept, dropped }, d) =>
          h(
            "section",
            h("strong", { class: "small" }, t("figure.beams.level", { n: d + 1 })),
            bars({
              most: levels[d].kept[0].probability,
              rows: [
                ...kept.map((beam) => ({
                  name: beam.words.join(space),
                  value: beam.probability,
                  text: percent(beam.probability),
                })),
                ...dropped.slice(0, 6 - Math.min(6, kept.length)).map((beam) => ({
                  name: beam.words.join(space),
                  value: beam.probability,
                  text: percent(beam.probability),
                  outline: true,
                })),
              ],
            }),
          ),
        ),
      ),
      h(
        "p",
        t("figure.beams.best", {
          sentence: levels.at(-1).kept[0].words.join(space),
          probability: percent(levels.at(-1).kept[0].probability),
        }),
      ),
    );
  };
  draw(1);
  return [
    slider({ label: t("figure.beams.width"), value: 1, least: 1, most: 6, step: 1, oninput: draw }),
    out,
  ];
}
