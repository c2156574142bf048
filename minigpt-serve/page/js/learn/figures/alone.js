// Figures of chapter 4: layer norm, GELU, the MLP's strongest answers in the loaded model.
import { h, fill } from "../../dom.js";
import { t } from "../../i18n.js";
import { inspect } from "../../api.js";
import { EXAMPLES, layerNorm, gelu as geluOf, geluTanh, relu } from "../../arithmetic.js";
import { fixed, number } from "../../numbers.js";
import { nameOf } from "../../tokens.js";
import { matrix } from "../../parts/matrix.js";
import { bars } from "../../parts/bars.js";
import { chart } from "../../parts/chart.js";
import { slider } from "../../parts/slider.js";
import { strip } from "../../parts/strip.js";
import { show } from "../../parts/message.js";
import { typed, read, note, example, choose } from "./part.js";

export function norm() {
  const x = [...EXAMPLES.norm],
    out = h("div");
  const draw = () => {
    const { mean, deviation, output } = layerNorm(x, 1e-5),
      most = Math.max(1e-9, ...x.map(Math.abs));
    const rows = (values, kind) =>
      values.map((value, i) => ({ name: `x${"₀₁₂₃₄₅"[i]}`, value, text: fixed(value, 4), kind }));
    fill(
      out,
      h(
        "p",
        { class: "num" },
        t("walk.norm", { mean: fixed(mean, 4), deviation: fixed(deviation, 4) }),
      ),
      h(
        "div",
        { class: "two" },
        h(
          "section",
          h("h3", t("figure.norm.before")),
          bars({ rows: rows(x, "grey"), signed: true, most }),
        ),
        h(
          "section",
          h("h3", t("figure.norm.after")),
          bars({ rows: rows(output), signed: true, most: Math.max(2, ...output.map(Math.abs)) }),
        ),
      ),
    );
  };
  draw();
  return [
    h(
      "div",
      { class: "scroll" },
      matrix({
        values: [x],
        label: "x",
        edit: (_, j, to) => {
          x[j] = to;
          draw();
        },
      }),
    ),
    out,
  ];
}

export function gelu() {
  const xs = Array.from({ length: 121 }, (_, i) => -3 + i / 20),
    out = h("p", { class: "num" });
  const line = (name, f, colour, dashed) => ({
    name,
    points: xs.map((x) => [x, f(x)]),
    colour,
    dashed,
  });
  const curves = chart({
    series: [line("GELU", geluOf, "var(--blue)"), line("ReLU", relu, "var(--orange)", true)],
    height: 240,
    label: t("figure.gelu"),
    xLabel: "x",
  });
  const draw = (x) => {
    fill(
      out,
      `x = ${fixed(x, 2)}   GELU ${fixed(geluOf(x), 4)}   GELU (tanh) ${fixed(geluTanh(x), 4)}   ReLU ${fixed(relu(x), 4)}`,
    );
    curves.update({ marks: [{ x, label: "" }] });
  };
  draw(1);
  return [
    slider({
      label: "x",
      value: 1,
      least: -3,
      most: 3,
      step: 0.05,
      format: (x) => fixed(x, 2),
      oninput: draw,
    }),
    out,
    curves,
  ];
}

export function neurons(ctx) {
  if (!ctx.model) return note(t("figure.no_model"));
  let layer = 0;
  return typed({
    ctx,
    text: example(ctx),
    label: t("figure.type"),
    height: 330,
    make: async (text) => {
      const reading = await read(ctx, text),
        out = h("div");
      let at = reading.ids.length - 1;
      const draw = () =>
        show(
          out,
          async () => {
            const { walk } = await inspect(
              "walk",
              { model: ctx.model.id, ids: reading.ids, at, layer, head: 0 },
              { signal: ctx.signal },
            );
            const post = walk.find((step) => step.site.endsWith("mlp.post")).values,
              order = [...post.keys()]
                .sort((a, b) => Math.abs(post[b]) - Math.abs(post[a]))
                .slice(0, 10);
            return [
              note(
                t("figure.neurons.count", {
                  all: post.length,
                  on: post.filter((x) => x > 0).length,
                  token: nameOf(reading.tokens[at]),
                }),
              ),
              bars({
                signed: true,
                rows: order.map((i) => ({ name: `#${i}`, value: post[i], text: number(post[i]) })),
              }),
            ];
          },
          { signal: ctx.signal, height: 280 },
        );
      const tokens = strip({
        tokens: reading.tokens,
        plain: true,
        selected: at,
        onselect: (index) => {
          at = index;
          tokens.select(index);
          draw();
        },
      });
      draw();
      return [
        tokens,
        choose(
          t("layer"),
          ctx.model.config.n_layer,
          (l) => t("layer.short", { layer: l }),
          (l) => {
            layer = l;
            draw();
          },
        ),
        out,
      ];
    },
  });
}
