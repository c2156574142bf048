// Figures of chapter 2: token + position, the clocks of sinusoidal positions, two tokens swapped.
import { h, fill } from "../../dom.js";
import { gap, t } from "../../i18n.js";
import { inspect } from "../../api.js";
import { nameOf } from "../../tokens.js";
import { percent, fixed, number } from "../../numbers.js";
import { sinusoid } from "../../arithmetic.js";
import { floatsFromBase64 } from "../../half.js";
import { softmax } from "../../sampling.js";
import { movedBySwap } from "../toys.js";
import { matrix } from "../../parts/matrix.js";
import { heatmap } from "../../parts/heatmap.js";
import { legend } from "../../parts/legend.js";
import { slider } from "../../parts/slider.js";
import { bars } from "../../parts/bars.js";
import { strip } from "../../parts/strip.js";
import { show } from "../../parts/message.js";
import { differenceScale } from "../../parts/paint.js";
import { typed, read, note, example } from "./part.js";

const FIRST = 8;
function sumTable(token, position, sum, name) {
  const most = Math.max(1e-9, ...[token, position, sum].flat().map(Math.abs));
  return h(
    "div",
    { class: "scroll" },
    matrix({
      values: [token, position, sum],
      rows: [
        t("figure.embed.token", { token: name }),
        t("figure.embed.position"),
        t("figure.embed.sum"),
      ],
      columns: token.map((_, i) => String(i)),
      scale: differenceScale(most),
      places: 3,
    }),
  );
}

export function embed(ctx) {
  if (!ctx.model?.tokenizer) {
    const words = [0.9, -0.4, 0.3, 0.7, -0.8, 0.2, 0.5, -0.1],
      out = h("div");
    const draw = (p) => {
      const position = sinusoid(p, 8);
      fill(
        out,
        sumTable(
          words,
          position,
          words.map((x, i) => x + position[i]),
          "x",
        ),
      );
    };
    draw(1);
    return [
      note(t("figure.no_model")),
      slider({ label: t("token.position"), value: 1, least: 0, most: 20, step: 1, oninput: draw }),
      out,
    ];
  }
  return typed({
    ctx,
    text: example(ctx),
    label: t("figure.type"),
    height: 190,
    make: async (text) => {
      const reading = await read(ctx, text),
        out = h("div");
      const draw = (at) =>
        show(
          out,
          async () => {
            const { walk } = await inspect(
              "walk",
              { model: ctx.model.id, ids: reading.ids, at, layer: 0, head: 0 },
              { signal: ctx.signal },
            );
            const row = (site) => walk.find((step) => step.site === site)?.values.slice(0, FIRST);
            const [token, position, sum] = [
              row("embed.token"),
              row("embed.position"),
              row("embed"),
            ];
            return position
              ? sumTable(row("embed.scaled") ?? token, position, sum, nameOf(reading.tokens[at]))
              : note(t(`figure.embed.${ctx.model.config.position_embedding}`));
          },
          { signal: ctx.signal, height: 110 },
        );
      const tokens = strip({
        tokens: reading.tokens,
        selected: reading.ids.length - 1,
        plain: true,
        onselect: (at) => {
          tokens.select(at);
          draw(at);
        },
      });
      draw(reading.ids.length - 1);
      return [tokens, out];
    },
  });
}

export function positions() {
  const out = h("div");
  let width = 32,
    rows = 40;
  const draw = () => {
    const table = Array.from({ length: rows }, (_, p) => sinusoid(p, width)),
      scale = differenceScale(1);
    fill(
      out,
      heatmap({
        rows,
        columns: width,
        cell: Math.max(6, Math.min(14, Math.floor(560 / width))),
        height: 340,
        value: (i, j) => table[i][j],
        scale,
        label: t("figure.positions"),
        describe: (i, j) => `PE(${i}, ${j}) = ${fixed(table[i][j], 4)}`,
        spoken: (i, j) => `${i}, ${j}: ${fixed(table[i][j], 3)}`,
      }),
      legend({ scale, at: [-1, -0.5, 0, 0.5, 1], format: String }),
    );
  };
  draw();
  return [
    h(
      "div",
      { class: "two" },
      slider({
        label: t("figure.positions.width"),
        value: width,
        least: 4,
        most: 64,
        step: 4,
        oninput: (x) => {
          width = x;
          draw();
        },
      }),
      slider({
        label: t("figure.positions.rows"),
        value: rows,
        least: 8,
        most: 100,
        step: 1,
        oninput: (x) => {
          rows = x;
          draw();
        },
      }),
    ),
    out,
  ];
}

/** How much of the probability of the next token two readings give to different tokens. */
async function moved(ctx, a, b) {
  const next = async (ids) => {
    const answer = await inspect("next", { model: ctx.model.id, ids }, { signal: ctx.signal });
    return softmax(floatsFromBase64(answer.logits));
  };
  const [p, q] = await Promise.all([a, b].map(next));
  return p.reduce((sum, x, i) => sum + Math.abs(x - q[i]), 0) / 2;
}

/** What a swap does without positions, computed for one and for two layers. */
const withoutPositions = () => {
  const [one, two] = [1, 2].map((layers) => fixed(movedBySwap(layers), 4));
  return note(t("figure.swap.toy", { one, two }));
};

export function swap(ctx) {
  if (!ctx.model) return [note(t("figure.no_model")), withoutPositions()];
  const { position_embedding: position, n_layer: layers } = ctx.model.config;
  const figure = typed({
    ctx,
    text: example(ctx),
    label: t("figure.type"),
    height: 260,
    make: async (text) => {
      const reading = await read(ctx, text),
        n = reading.ids.length,
        out = h("div");
      if (n < 3) return note(t("figure.swap.short"));
      let at = Math.max(0, Math.min(n - 3, 0));
      const draw = () =>
        show(
          out,
          async () => {
            const ids = [...reading.ids];
            [ids[at], ids[at + 1]] = [ids[at + 1], ids[at]];
            const other = await inspect(
              "read",
              { model: ctx.model.id, ids },
              { signal: ctx.signal },
            );
            const side = (title, r, kind) =>
              h(
                "section",
                h("h3", title),
                strip({ tokens: r.tokens, plain: true }),
                bars({
                  most: 1,
                  rows: r.top.slice(0, 5).map((token) => ({
                    name: nameOf(token),
                    value: token.probability,
                    text: percent(token.probability),
                    kind,
                  })),
                }),
                h("p", { class: "small num" }, t("snapshots.loss", { loss: number(r.loss) })),
              );
            const share = percent(await moved(ctx, reading.ids, ids));
            return [
              h(
                "p",
                t("figure.swap.moved", { share }),
                gap(),
                t(`figure.swap.${position}`, { layers }),
              ),
              h(
                "div",
                { class: "two" },
                side(t("figure.swap.before"), reading, ""),
                side(t("figure.swap.after"), other, "orange"),
              ),
            ];
          },
          { signal: ctx.signal, height: 220 },
        );
      draw();
      return [
        slider({
          label: t("figure.swap.which"),
          value: at,
          least: 0,
          most: n - 2,
          step: 1,
          format: (x) => `${nameOf(reading.tokens[x])} ↔ ${nameOf(reading.tokens[x + 1])}`,
          oninput: (x) => {
            at = x;
            draw();
          },
        }),
        out,
      ];
    },
  });
  return [...figure, withoutPositions()];
}
