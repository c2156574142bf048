// Figures of chapter 3: the restaurant, one head on three tokens, a head of the loaded model.
import { h, fill } from "../../dom.js";
import { t } from "../../i18n.js";
import { EXAMPLES, attention as attend, softmaxRow } from "../../arithmetic.js";
import { fixed, percent } from "../../numbers.js";
import { matrix } from "../../parts/matrix.js";
import { bars } from "../../parts/bars.js";
import { show } from "../../parts/message.js";
import { steps } from "../../inside/head.js";
import { large } from "../../inside/heads.js";
import { oneHead } from "../../inside/heads-data.js";
import { strip } from "../../parts/strip.js";
import { arcs } from "../../parts/arcs.js";
import { typed, read, note, example, choose } from "./part.js";

export function restaurant() {
  const { q, k, v } = structuredClone(EXAMPLES.restaurant),
    out = h("div");
  let soldOut = -1,
    scaled = true;
  const dishes = [0, 1, 2].map((i) => t(`figure.dish.${i}`)),
    wishes = [0, 1].map((i) => t(`figure.wish.${i}`));
  const draw = () => {
    const a = attend([q], k, v, {
        hidden: (_, j) => j === soldOut,
        scale: scaled ? Math.SQRT2 : 1,
      }),
      scores = a.raw[0],
      weights = softmaxRow(a.masked[0]);
    fill(
      out,
      bars({
        most: 1,
        rows: dishes.map((dish, j) => ({
          name: dish,
          value: weights[j],
          text: percent(weights[j]),
          outline: j === soldOut,
          tip: () => [
            h("strong", dish),
            h(
              "p",
              { class: "num" },
              `q·k = ${fixed(q[0], 2)}·${fixed(k[j][0], 2)} + ${fixed(q[1], 2)}·${fixed(k[j][1], 2)} = ${fixed(scores[j], 4)}`,
            ),
            h("p", { class: "num" }, scaled ? `÷ √2 = ${fixed(scores[j] / Math.SQRT2, 4)}` : ""),
          ],
        })),
      }),
      h(
        "p",
        { class: "num small" },
        t("figure.restaurant.scores", { scores: scores.map((x) => fixed(x, 2)).join(", ") }),
      ),
      h(
        "p",
        { class: "num" },
        t("figure.restaurant.served", { output: a.output[0].map((x) => fixed(x, 4)).join(", ") }),
      ),
    );
  };
  draw();
  const check = (label, value, put) =>
    h(
      "label",
      { class: "check" },
      h("input", {
        type: "checkbox",
        checked: value,
        onchange: (event) => {
          put(event.target.checked);
          draw();
        },
      }),
      label,
    );
  return [
    h(
      "div",
      { class: "row top" },
      matrix({
        values: [q],
        label: t("figure.restaurant.query"),
        columns: wishes,
        edit: (_, j, x) => {
          q[j] = x;
          draw();
        },
      }),
      matrix({
        values: k,
        label: t("figure.restaurant.keys"),
        rows: dishes,
        columns: wishes,
        edit: (i, j, x) => {
          k[i][j] = x;
          draw();
        },
      }),
      matrix({
        values: v,
        label: t("figure.restaurant.values"),
        rows: dishes,
        columns: ["v₀", "v₁"],
        edit: (i, j, x) => {
          v[i][j] = x;
          draw();
        },
      }),
    ),
    h(
      "div",
      { class: "row" },
      check(t("figure.restaurant.scale"), true, (x) => {
        scaled = x;
      }),
      choose(
        t("figure.restaurant.sold_out"),
        4,
        (i) => (i === 0 ? t("figure.restaurant.nothing") : dishes[i - 1]),
        (i) => {
          soldOut = i - 1;
          draw();
        },
      ),
    ),
    out,
  ];
}

export function head() {
  const { q, k, v } = structuredClone(EXAMPLES.head),
    out = h("div"),
    names = ["A", "B", "C"];
  const draw = () =>
    fill(out, steps({ q, k, v, keys: [0, 1, 2], names: (i) => names[i], selected: 2 }));
  draw();
  const table = (label, values) =>
    matrix({
      values,
      label,
      rows: names,
      edit: (i, j, x) => {
        values[i][j] = x;
        draw();
      },
    });
  return [h("div", { class: "row top" }, table("Q", q), table("K", k), table("V", v)), out];
}

export function modelHead(ctx) {
  if (!ctx.model) return note(t("figure.no_model"));
  const { n_layer, n_head } = ctx.model.config;
  let layer = n_layer - 1,
    which = 0;
  return typed({
    ctx,
    text: example(ctx),
    label: t("figure.type"),
    height: 420,
    make: async (text) => {
      const reading = await read(ctx, text),
        out = h("div"),
        last = reading.ids.length - 1;
      const tokens = strip({ tokens: reading.tokens, plain: true, selected: last }),
        overlay = arcs(tokens);
      const draw = () =>
        show(
          out,
          async () => {
            const pattern = await oneHead({
              model: ctx.model.id,
              ids: reading.ids,
              layer,
              head: which,
              signal: ctx.signal,
            });
            overlay.draw(last, pattern.row(last));
            return large({ reading, at: last, overlay }, pattern, { width: 320, height: 320 });
          },
          { signal: ctx.signal, height: 360 },
        );
      draw();
      return [
        h(
          "div",
          { class: "row" },
          choose(
            t("layer"),
            n_layer,
            (l) => t("layer.short", { layer: l }),
            (l) => {
              layer = l;
              draw();
            },
            layer,
          ),
          choose(
            t("head"),
            n_head,
            (x) => t("head.short", { head: x }),
            (x) => {
              which = x;
              draw();
            },
          ),
        ),
        h("div", { class: "arc-room" }, overlay),
        out,
      ];
    },
  });
}
