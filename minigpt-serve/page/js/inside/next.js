// What comes next? The ten best after the selected token; temperature and filters act on the cached
// logits, here in the browser.
import { h, fill, perFrame } from "../dom.js";
import { gap, t } from "../i18n.js";
import { inspect } from "../api.js";
import { change } from "../router.js";
import { floatsFromBase64 } from "../half.js";
import { nameOf } from "../tokens.js";
import { number, percent } from "../numbers.js";
import { process, softmax, largest, draw, entropy } from "../sampling.js";
import { paramsOf, remaining, settingsOf } from "../settings.js";
import { bars } from "../parts/bars.js";
import { slider } from "../parts/slider.js";

export default async function next(chosen) {
  const { model, reading, at, params, signal } = chosen;
  const answer = await inspect("next", { model: model.id, ids: reading.ids, at }, { signal });
  const logits = floatsFromBase64(answer.logits);
  const context = reading.tokens[at];
  return [
    h("p", { class: "quiet" }, t("next.after", { token: nameOf(context), position: at })),
    distribution({
      logits,
      names: answer.top,
      model,
      settings: settingsOf(params),
      onchange: (settings) => change(paramsOf(settings), { replace: true }),
    }),
  ];
}

/** Bars and sliders over one row of logits. Used in the chapters too. */
export function distribution({ logits, names, model, settings, onchange, count = 10, only }) {
  const known = new Map(names.map((token) => [token.id, nameOf(token)]));
  const name = (id) => known.get(id) ?? `#${id}`;
  const before = softmax(logits),
    best = largest(logits, count);
  const list = h("div", { class: "next-bars" }),
    sum = h("p", { class: "num small" });
  let drawn = null;
  const paint = perFrame(() => {
    const left = process(logits, settings),
      after = softmax(left),
      s = settings;
    let kept = 0,
      mass = 0;
    // Greedy takes the likeliest token of the model's own distribution.
    const tempered =
      s.temperature > 0 ? softmax(process(logits, { temperature: s.temperature })) : before;
    for (let id = 0; id < left.length; id++)
      if (left[id] > -Infinity) {
        kept++;
        mass += tempered[id];
      }
    const rows = best.map((id) => {
      const out = left[id] === -Infinity;
      const dots = drawn?.get(id);
      return {
        name: name(id),
        value: out ? tempered[id] : after[id],
        outline: out,
        text: out ? "–" : percent(after[id]),
        dots:
          dots &&
          h(
            "span",
            { class: "dots", "aria-label": t("next.drawn", { n: dots }) },
            Array.from({ length: dots }, () => h("i")),
          ),
        tip: () => [
          h("strong", { class: "mono", dir: "auto" }, name(id)),
          h(
            "dl",
            [
              [t("token.id"), id],
              [t("next.logit"), number(logits[id])],
              [t("next.model"), percent(before[id])],
              [t("next.now"), out ? t("next.removed") : percent(after[id])],
            ].map(([a, b]) => [h("dt", a), h("dd", { class: "num" }, String(b))]),
          ),
        ],
      };
    });
    fill(list, bars({ rows, most: 1, label: t("view.next") }));
    fill(
      sum,
      remaining({ kept, all: left.length, mass, greedy: s.temperature === 0 }),
      gap(),
      t("next.entropy", { bits: number(entropy(after), 3) }),
      gap(),
      drawnOthers(),
    );
  });
  const drawnOthers = () => {
    const others = drawn ? [...drawn].filter(([id]) => !best.includes(id)) : [];
    return others.length
      ? t("next.others", { list: others.map(([id, n]) => `${name(id)} × ${n}`).join(", ") })
      : "";
  };
  const put = (key, value) => {
    settings = { ...settings, [key]: value };
    drawn = null;
    paint();
  };
  const told = () => onchange?.(settings);
  const control = {
    temperature: () =>
      slider({
        label: t("temperature"),
        about: t("temperature.about"),
        value: settings.temperature,
        least: 0,
        most: 3,
        step: 0.05,
        format: (x) => (x === 0 ? t("greedy") : x.toFixed(2)),
        oninput: (x) => put("temperature", x),
        onchange: told,
      }),
    top_k: () =>
      slider({
        label: "top-k",
        about: t("top_k.about"),
        value: settings.top_k,
        least: 0,
        most: 50,
        step: 1,
        format: (x) => (x === 0 ? t("off") : String(x)),
        oninput: (x) => put("top_k", x),
        onchange: told,
      }),
    top_p: () =>
      slider({
        label: "top-p",
        about: t("top_p.about"),
        value: settings.top_p,
        least: 0.05,
        most: 1,
        step: 0.01,
        format: (x) => (x >= 1 ? t("off") : x.toFixed(2)),
        oninput: (x) => put("top_p", x),
        onchange: told,
      }),
    min_p: () =>
      slider({
        label: "min-p",
        about: t("min_p.about"),
        value: settings.min_p,
        least: 0,
        most: 1,
        step: 0.01,
        format: (x) => (x === 0 ? t("off") : x.toFixed(2)),
        oninput: (x) => put("min_p", x),
        onchange: told,
      }),
  };
  const pick = h(
    "button",
    {
      type: "button",
      onclick: async () => {
        const after = softmax(process(logits, settings));
        drawn = new Map();
        for (let i = 0; i < 20; i++) {
          const id = draw(after, Math.random);
          drawn.set(id, (drawn.get(id) ?? 0) + 1);
        }
        paint();
        const unknown = [...drawn.keys()].filter((id) => !known.has(id));
        if (unknown.length && model) {
          for (const token of (await inspect("names", { model: model.id, ids: unknown })).tokens)
            known.set(token.id, nameOf(token));
          paint();
        }
      },
    },
    t("next.draw"),
  );
  paint();
  return h(
    "div",
    { class: "next" },
    h("div", list, sum, h("div", { class: "row" }, pick)),
    h(
      "div",
      { class: "sliders" },
      (only ?? Object.keys(control)).map((key) => control[key]()),
    ),
  );
}
