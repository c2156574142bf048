// Figures of chapter 6: the loss of a guess, a model that learns, the scaling law.
import { h, fill } from "../../dom.js";
import { t, lang } from "../../i18n.js";
import { json } from "../../api.js";
import { fixed, number, percent, short } from "../../numbers.js";
import { scalingLaw } from "../../arithmetic.js";
import { generator } from "../../sampling.js";
import { chart } from "../../parts/chart.js";
import { slider } from "../../parts/slider.js";
import { show } from "../../parts/message.js";
import { visible } from "../../tokens.js";
import { Bigram } from "../toys.js";
import { note } from "./part.js";
import { own } from "../../inside/examples.js";

export function loss() {
  const out = h("p", { class: "num" }),
    ps = Array.from({ length: 200 }, (_, i) => (i + 1) / 200);
  const curve = chart({
    series: [{ name: "−log p", points: ps.map((p) => [p, -Math.log(p)]), colour: "var(--blue)" }],
    height: 220,
    xLabel: "p",
    label: t("figure.loss"),
  });
  const draw = (p) => {
    fill(
      out,
      t("figure.loss.is", {
        p: percent(p),
        loss: fixed(-Math.log(p), 4),
        bits: fixed(-Math.log2(p), 3),
        choices: number(1 / p, 3),
      }),
    );
    curve.update({ marks: [{ x: p, label: "" }] });
  };
  draw(0.25);
  return [
    slider({
      label: t("figure.loss.p"),
      value: 0.25,
      least: 0.001,
      most: 1,
      scale: "log",
      format: percent,
      oninput: draw,
    }),
    out,
    curve,
  ];
}

const LONGEST = 300;
const TEXTS = {
  en: "the cat sat on the mat. the dog sat on the log. the cat and the dog sat together. ",
  zh:
    "春眠不觉晓，处处闻啼鸟。夜来风雨声，花落知多少。床前明月光，疑是地上霜。举头望明月，低头思故" +
    "乡。",
};

export function descent(ctx) {
  const out = h("div");
  show(
    out,
    async () => {
      const runs = ctx.features.runs
        ? (await json("/v1/runs", { signal: ctx.signal })).runs.filter(
            (run) => run.kind !== "sweep" && run.step > 0,
          )
        : [];
      const mine = runs.find((run) => run.name === ctx.model?.run);
      if (mine) return recorded(ctx, mine.name, t("figure.descent.own", { run: mine.name }));
      return runs.length
        ? recorded(ctx, runs[0].name, t("figure.descent.run", { run: runs[0].name }))
        : note(t("figure.descent.none"));
    },
    { signal: ctx.signal, height: 380 },
  );
  return out;
}

/** A run, step by step as it was recorded. */
async function recorded(ctx, name, about) {
  const run = await json(`/v1/runs/${encodeURIComponent(name)}`, { signal: ctx.signal }),
    sample = h("p", { class: "mono goes-on", dir: "auto" });
  const curve = chart({
    series: [],
    height: 240,
    xLabel: t("axis.step"),
    label: t("figure.descent"),
    zoom: [run.records[0]?.step ?? 0, run.records.at(-1)?.step ?? 1],
  });
  const draw = (count) => {
    const seen = run.records.slice(0, count),
      step = seen.at(-1)?.step ?? 0;
    curve.update({
      series: [
        {
          name: t("training.loss"),
          colour: "var(--blue)",
          points: seen.map((r) => [r.step, r.loss]),
        },
        {
          name: t("training.val"),
          colour: "var(--orange)",
          dashed: true,
          dots: true,
          points: seen.filter((r) => r.val_loss != null).map((r) => [r.step, r.val_loss]),
        },
      ],
    });
    const said = (run.samples ?? []).filter((s) => s.step <= step).at(-1);
    fill(sample, said ? visible(said.text) : "\u00a0");
  };
  return [
    note(about),
    player(ctx, run.records.length, draw, (x) => run.records[x - 1]?.step ?? 0),
    curve,
    sample,
  ];
}

const LEAST_TEXT = 80;
const MOST_TEXT = 400;
/** Examples of the loaded model's data in one text, if there is enough of it. */
function ownText(model) {
  if (!model) return null;
  const texts = own(model).map(
    (example) => example.text ?? `${example.question} ${example.answer}`,
  );
  const all = texts.join(" ").slice(0, MOST_TEXT);
  return all.length >= LEAST_TEXT ? all : null;
}

/** A very small model, trained here. */
export function live(ctx) {
  const text = ownText(ctx.model) ?? TEXTS[lang()].repeat(4),
    curve = chart({
      series: [],
      height: 240,
      xLabel: t("axis.step"),
      label: t("figure.live"),
      zoom: [0, LONGEST],
    }),
    sample = h("p", { class: "mono goes-on" });
  let model = new Bigram(text),
    losses = [],
    rate = 5;
  const draw = (count) => {
    if (count < losses.length) {
      model = new Bigram(text);
      losses = [];
    }
    while (losses.length < count) losses.push([losses.length, model.step(rate)]);
    curve.update({ series: [{ name: t("training.loss"), colour: "var(--blue)", points: losses }] });
    fill(sample, model.sample(40, generator(count)));
  };
  return [
    note(t("figure.descent.live", { v: model.vocabulary.length })),
    slider({
      label: t("figure.descent.rate"),
      value: rate,
      least: 0.5,
      most: 500,
      scale: "log",
      format: (x) => number(x, 2),
      oninput: (x) => {
        rate = x;
        model = new Bigram(text);
        losses = [];
        draw(LONGEST);
      },
    }),
    player(ctx, LONGEST, draw),
    curve,
    sample,
  ];
}

function player(ctx, most, draw) {
  const bar = slider({
    label: t("axis.step"),
    value: Math.max(1, most),
    least: 1,
    most: Math.max(1, most),
    step: 1,
    oninput: (x) => {
      at = x;
      draw(x);
    },
  });
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let at = most,
    timer = null;
  const button = h(
    "button",
    { type: "button", onclick: () => (timer ? stop() : start()) },
    t("snapshots.play"),
  );
  const stop = () => {
    clearInterval(timer);
    timer = null;
    button.textContent = t("snapshots.play");
  };
  function start() {
    if (at >= most) at = 1;
    if (still) {
      at = most;
      bar.put(at);
      draw(at);
      return;
    }
    button.textContent = t("snapshots.pause");
    timer = setInterval(() => {
      if (!button.isConnected || at >= most) {
        stop();
        return;
      }
      at = Math.min(most, at + Math.max(1, Math.round(most / 120)));
      bar.put(at);
      draw(at);
    }, 50);
  }
  ctx.signal.addEventListener("abort", stop);
  draw(most);
  return h("div", { class: "player" }, button, bar);
}

/** Fitted to 34 runs on C4 (Gadre et al. 2024). */
const LAW = { E: 1.62002, A: 122.55, B: 242.61, alpha: 0.25257, beta: 0.26223 };

export function scaling() {
  const out = h("p", { class: "num" });
  let n = 1e8,
    d = 2e9;
  const ds = Array.from({ length: 61 }, (_, i) => 10 ** (6 + i / 10));
  const curve = chart({
    series: [],
    height: 240,
    label: t("figure.scaling"),
    xLabel: "log₁₀ D",
    yLabel: "L",
  });
  const draw = () => {
    const at = scalingLaw(LAW, n, d);
    fill(
      out,
      t("figure.scaling.is", {
        loss: fixed(at, 3),
        E: fixed(LAW.E, 3),
        n: fixed(LAW.A * n ** -LAW.alpha, 3),
        d: fixed(LAW.B * d ** -LAW.beta, 3),
        flops: (6 * n * d).toExponential(1),
      }),
    );
    curve.update({
      series: [
        {
          name: `N = ${short(n)}`,
          colour: "var(--blue)",
          points: ds.map((x) => [Math.log10(x), scalingLaw(LAW, n, x)]),
        },
        {
          name: `N = ${short(n * 10)}`,
          colour: "var(--orange)",
          dashed: true,
          points: ds.map((x) => [Math.log10(x), scalingLaw(LAW, 10 * n, x)]),
        },
      ],
      marks: [{ x: Math.log10(d), label: "D" }],
    });
  };
  draw();
  return [
    h(
      "div",
      { class: "two" },
      slider({
        label: t("figure.scaling.n"),
        value: n,
        least: 1e5,
        most: 1e11,
        scale: "log",
        format: short,
        oninput: (x) => {
          n = x;
          draw();
        },
      }),
      slider({
        label: t("figure.scaling.d"),
        value: d,
        least: 1e6,
        most: 1e12,
        scale: "log",
        format: short,
        oninput: (x) => {
          d = x;
          draw();
        },
      }),
    ),
    out,
    curve,
    note(t("figure.scaling.source")),
  ];
}
