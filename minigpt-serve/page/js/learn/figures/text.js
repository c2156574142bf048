// Figures of chapter 1: bytes, merging, tokens.
import { h, fill } from "../../dom.js";
import { t, lang } from "../../i18n.js";
import { visible } from "../../tokens.js";
import { strip } from "../../parts/strip.js";
import { slider } from "../../parts/slider.js";
import { mergeSteps } from "../toys.js";
import { typed, read, note, noModel, example } from "./part.js";

export function bytes(ctx) {
  return typed({
    ctx,
    text: lang() === "zh" ? "你好 GPT 🚀" : "Hi 你好 🚀",
    label: t("figure.type"),
    wait: 0,
    reads: false,
    height: 90,
    make: async (text) => {
      const chars = [...text].slice(0, 24),
        encoder = new TextEncoder();
      const total = encoder.encode(text).length;
      return [
        h(
          "div",
          { class: "byte-row" },
          chars.map((c) =>
            h(
              "span",
              { class: "byte-cell" },
              h("strong", { class: "mono" }, visible(c)),
              h("small", { class: "num" }, [...encoder.encode(c)].join(" ")),
            ),
          ),
        ),
        note(t("figure.bytes.count", { characters: [...text].length, bytes: total })),
      ];
    },
  });
}

export function bpe(ctx) {
  return typed({
    ctx,
    text:
      lang() === "zh" ? "好好学习 天天向上 好好吃饭 天天运动" : "low lower lowest new newer newest",
    label: t("figure.type"),
    wait: 0,
    reads: false,
    height: 140,
    make: async (text) => {
      const steps = mergeSteps(text),
        out = h("div");
      const draw = (at) => {
        const { pieces, pair, count } = steps[at];
        fill(
          out,
          h(
            "div",
            { class: "strip" },
            pieces.map((piece) =>
              h(
                "span",
                { class: `token mono${pair && piece === pair.join("") ? " merged" : ""}` },
                visible(piece),
              ),
            ),
          ),
          note(
            pair
              ? t("figure.bpe.step", {
                  a: visible(pair[0]),
                  b: visible(pair[1]),
                  count,
                  tokens: pieces.length,
                })
              : t("figure.bpe.start", { tokens: pieces.length }),
          ),
        );
      };
      draw(Math.min(1, steps.length - 1));
      return [
        slider({
          label: t("figure.bpe.merges"),
          value: Math.min(1, steps.length - 1),
          least: 0,
          most: Math.max(0, steps.length - 1),
          step: 1,
          oninput: draw,
        }),
        out,
      ];
    },
  });
}

export function tokens(ctx) {
  if (!ctx.model?.tokenizer) return noModel();
  return typed({
    ctx,
    text: example(ctx),
    label: t("figure.type"),
    height: 110,
    make: async (text) => {
      if (!text) return note(t("inside.empty"));
      const reading = await read(ctx, text);
      return [
        strip({ tokens: reading.tokens, plain: true }),
        h("p", { class: "mono small num wrap" }, `[${reading.ids.join(", ")}]`),
        note(
          t("figure.tokens.count", { tokens: reading.ids.length, characters: [...text].length }),
        ),
      ];
    },
  });
}
