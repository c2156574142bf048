// The settings of an answer, each with a sentence and a small picture of what it does to the
// model's current distribution.
import { h, fill } from "../dom.js";
import { gap, t } from "../i18n.js";
import { change } from "../router.js";
import { inspect } from "../api.js";
import { floatsFromBase64 } from "../half.js";
import { process, softmax, largest } from "../sampling.js";
import { slider } from "../parts/slider.js";
import { paramsOf, PLAIN } from "../settings.js";

let example = Float32Array.from([5, 4.2, 3.9, 3, 2.6, 2.2, 1.5, 1, 0.4, 0, -0.5, -1]);

export function drawer() {
  let settings = { ...PLAIN },
    defaults = PLAIN;
  const more = { max_tokens: 120, seed: null };
  const pictures = {},
    body = h("div", { class: "drawer panel", hidden: true, id: "settings" });
  const toggle = h(
    "button",
    {
      type: "button",
      "aria-expanded": "false",
      "aria-controls": "settings",
      onclick: () => {
        body.hidden = !body.hidden;
        toggle.setAttribute("aria-expanded", String(!body.hidden));
        if (!body.hidden) body.scrollIntoView({ block: "nearest" });
      },
    },
    t("chat.settings"),
  );
  const picture = (key) => (pictures[key] = h("div", { class: "mini", "aria-hidden": "true" }));
  const SLIDERS = {
    temperature: {
      label: () => t("temperature"),
      least: 0,
      most: 2,
      step: 0.05,
      format: (x) => (x === 0 ? t("greedy") : x.toFixed(2)),
    },
    top_k: {
      label: () => "top-k",
      least: 0,
      most: 50,
      step: 1,
      format: (x) => (x === 0 ? t("off") : String(x)),
    },
    top_p: {
      label: () => "top-p",
      least: 0.05,
      most: 1,
      step: 0.01,
      format: (x) => (x >= 1 ? t("off") : x.toFixed(2)),
    },
    min_p: {
      label: () => "min-p",
      least: 0,
      most: 1,
      step: 0.01,
      format: (x) => (x === 0 ? t("off") : x.toFixed(2)),
    },
  };
  function paint() {
    const best = largest(example, 12);
    for (const key of Object.keys(SLIDERS)) {
      const only = process(example, { [key]: settings[key] }),
        now = softmax(only),
        plain = softmax(example);
      fill(
        pictures[key],
        best.map((id) =>
          h("i", {
            class: only[id] === -Infinity ? "off" : null,
            style: {
              height: `${Math.max(2, 100 * Math.sqrt(only[id] === -Infinity ? plain[id] : now[id]))}%`,
            },
          }),
        ),
      );
    }
  }
  function draw() {
    fill(
      body,
      h("p", { class: "small quiet" }, t("chat.defaults"), gap(), t("chat.pictures")),
      h(
        "div",
        { class: "drawer-grid" },
        Object.entries(SLIDERS).map(([key, s]) =>
          slider({
            ...s,
            label: s.label(),
            about: t(`${key}.about`),
            value: settings[key],
            picture: picture(key),
            oninput: (x) => {
              settings[key] = x;
              paint();
            },
            onchange: () => change(paramsOf(settings, defaults), { replace: true }),
          }),
        ),
        slider({
          label: t("chat.max"),
          about: t("chat.max.about"),
          value: more.max_tokens,
          least: 1,
          most: 500,
          step: 1,
          oninput: (x) => {
            more.max_tokens = x;
          },
        }),
        h(
          "div",
          { class: "slider" },
          h("label", { for: "seed" }, t("chat.seed")),
          h("input", {
            id: "seed",
            type: "number",
            min: 0,
            step: 1,
            value: more.seed ?? "",
            oninput: (event) => {
              more.seed =
                event.target.value === ""
                  ? null
                  : Math.max(0, Math.floor(Number(event.target.value)));
            },
          }),
          h("p", { class: "small quiet" }, t("chat.seed.about")),
        ),
      ),
    );
    paint();
  }
  return {
    toggle,
    element: body,
    /** What the server is asked for: only what was changed, so that each model keeps its own defaults. */
    settings: () => ({
      ...more,
      ...Object.fromEntries(
        Object.entries(settings).filter(([key, value]) => value !== defaults[key]),
      ),
    }),
    put: (next, from) => {
      const same = JSON.stringify([next, from]) === JSON.stringify([settings, defaults]);
      if (same && body.childElementCount) return;
      settings = { ...next };
      defaults = from;
      draw();
    },
    /** Takes the distribution before the answer's first token. */
    look: async ({ model, turn }) => {
      if (!model.tokenizer) return;
      try {
        example = floatsFromBase64(
          (
            await inspect("next", {
              model: model.id,
              text: turn.prompt ?? turn.question + (model.separator ?? ""),
            })
          ).logits,
        );
        paint();
      } catch {
        /* the example stays */
      }
    },
  };
}
