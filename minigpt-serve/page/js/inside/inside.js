// Inside: a text, its tokens, the pass at the left, one view at the right. What is selected is in
// the address.
import { h, fill, settled } from "../dom.js";
import { t } from "../i18n.js";
import { inspect } from "../api.js";
import { whole as wholeOf } from "../address.js";
import { link, here } from "../router.js";
import { number, short, whole } from "../numbers.js";
import { strip } from "../parts/strip.js";
import { visible } from "../tokens.js";
import { legend } from "../parts/legend.js";
import { arcs } from "../parts/arcs.js";
import { surpriseScale } from "../parts/paint.js";
import { show, empty, failure, lacking, noModel } from "../parts/message.js";
import { isPost, missing, onlyAnswers } from "../model.js";
import { longer as examples } from "./examples.js";
import next from "./next.js";
import head from "./head.js";
import heads from "./heads.js";
import lens from "./lens.js";
import attribution from "./attribution.js";
import ablation from "./ablation.js";
import patching from "./patching.js";
import walk from "./walk.js";

export const VIEWS = { next, head, heads, lens, attribution, ablation, patching, walk };
/** The chapter of Learn that explains a view. */
const CHAPTERS = {
  next: 7,
  head: 3,
  heads: 3,
  lens: 5,
  attribution: 5,
  ablation: 5,
  patching: 5,
  walk: 5,
};

export function mount(root, ctx) {
  if (!ctx.model) {
    root.append(h("h1", t("inside.title")), noModel(ctx));
    return {};
  }
  const state = { ctx, reading: null, overlay: null, drawn: "" };
  const input = h("textarea", {
    rows: 2,
    "aria-label": t("inside.text"),
    placeholder: t("inside.placeholder"),
    spellcheck: "false",
    class: "mono",
    dir: "auto",
  });
  const count = h("span", { class: "small quiet num" });
  const tokens = h("div", { class: "tokens-box" });
  const lack = h("div", { class: "lack" });
  const pass = h("nav", { class: "pass", "aria-label": t("inside.pass") });
  const view = h("section", { class: "view panel", "aria-live": "off" });
  const offered = h("div", { class: "row small offered" });
  root.append(
    h("h1", t("inside.title")),
    h("p", { class: "prose quiet" }, t("inside.lead")),
    input,
    h("div", { class: "row spread" }, offered, count),
    lack,
    tokens,
    h("div", { class: "inside" }, pass, view),
  );
  const type = settled(
    () =>
      here().place === "inside" &&
      ctx.change({ text: input.value, ids: null, at: null }, { replace: true }),
    350,
  );
  input.addEventListener("input", type);

  async function update(next) {
    state.ctx = ctx = next;
    const { params, model } = ctx;
    fill(
      offered,
      h("span", { class: "quiet" }, t("examples")),
      examples(model).map((text) =>
        h(
          "button",
          {
            type: "button",
            class: "plain",
            dir: "auto",
            onclick: () => ctx.change({ text, ids: null, at: null }),
          },
          visible(text),
        ),
      ),
    );
    tokens.classList.toggle("noted", answersOnly(model));
    // Who has just emptied the box is about to type; otherwise there is an example.
    const typing = document.activeElement === input && input.value === "";
    const text = params.text ?? (typing ? "" : (examples(model)[0] ?? ""));
    if (document.activeElement !== input && input.value !== text && params.ids === undefined)
      input.value = text;
    if (params.ids !== undefined && !model.tokenizer) input.value = params.ids;
    const question = question_of(model, params, text);
    if (!question.text && !question.ids?.length) {
      nothing(empty(model.tokenizer ? t("inside.empty") : t("inside.ids")));
      return;
    }
    const asked = JSON.stringify(question);
    try {
      const reading = await inspect("read", question, { signal: ctx.signal });
      if (JSON.stringify(question_of(ctx.model, ctx.params, ctx.params.text ?? text)) !== asked)
        return;
      state.reading = reading;
    } catch (error) {
      if (error.name === "AbortError") return;
      nothing(failure(error));
      // A text of nothing but unknown characters has no token to look at.
      fill(lack, lacking(missing(model, question.text ?? ""), model));
      return;
    }
    // Characters that the vocabulary lacks are not among the tokens: that is said where they are missed.
    fill(lack, lacking(state.reading.unknown ?? missing(model, question.text ?? ""), model));
    draw();
  }

  /**
   * Where there is nothing to look at: why, and no view. What was drawn is drawn anew afterwards.
   */
  function nothing(why) {
    fill(tokens, why);
    fill(lack);
    fill(view);
    fill(pass);
    view.hidden = true;
    count.textContent = "";
    state.drawn = "";
  }

  function draw() {
    view.hidden = false;
    const { reading } = state,
      { params, model } = ctx,
      last = reading.tokens.length - 1;
    const at = wholeOf(params.at, 0, last, last),
      layer = wholeOf(params.layer, 0, model.config.n_layer - 1, model.config.n_layer - 1),
      headAt = wholeOf(params.head, 0, model.config.n_head - 1, 0);
    const name = VIEWS[params.view] ? params.view : "next";
    count.textContent = t("inside.count", {
      tokens: whole(reading.tokens.length),
      context: whole(model.context),
      loss: number(reading.loss),
    });
    const key = JSON.stringify([model.id, reading.ids]);
    if (state.key !== key || !state.strip?.isConnected) {
      state.key = key;
      state.strip = strip({
        tokens: reading.tokens,
        selected: at,
        label: t("inside.tokens"),
        onselect: (index, replace) => ctx.change({ at: index }, { replace: Boolean(replace) }),
      });
      state.overlay = arcs(state.strip);
      fill(
        tokens,
        state.overlay,
        legend({
          label: t("legend.surprisal"),
          scale: surpriseScale(),
          at: [0, 3, 6, 9, 12],
          format: (x) => `${x}${x === 12 ? "+" : ""}`,
        }),
        answersOnly(model) &&
          reading.ids.length > 2 &&
          h(
            "p",
            { class: "small quiet prose" },
            t("inside.answers_only", { separator: model.separator }),
          ),
      );
    } else state.strip.select(at);
    drawPass(layer, headAt, name);
    const chosen = { ...ctx, reading, at, layer, head: headAt, overlay: state.overlay, key };
    if (name !== "head" && name !== "heads") state.overlay.draw(null);
    const frame = `${name}|${model.id}`;
    if (state.drawn !== frame) {
      state.drawn = frame;
      fill(view, tabs(name), title(name), (state.body = h("div", { class: "view-body" })));
    }
    show(state.body, () => VIEWS[name](chosen, state), { signal: ctx.signal, height: 320 });
  }

  const tabs = (name) =>
    h(
      "nav",
      { class: "tabs", "aria-label": t("inside.views") },
      Object.keys(VIEWS).map((view) =>
        h(
          "a",
          {
            href: link("inside", { ...ctx.params, view }),
            "aria-current": view === name ? "page" : null,
            onclick: (event) => {
              event.preventDefault();
              ctx.change({ view });
            },
          },
          t(`view.${view}`),
        ),
      ),
    );
  const title = (name) =>
    h(
      "div",
      { class: "row spread" },
      h("h2", t(`view.${name}.question`)),
      h(
        "a",
        { class: "small", href: link("learn", keepModel(ctx), String(CHAPTERS[name])) },
        t("chapter.link", { n: CHAPTERS[name] }),
      ),
    );

  function drawPass(layer, headAt, name) {
    const { n_layer, n_head, vocab_size, n_embd } = ctx.model.config,
      tokensHere = state.reading.tokens.length;
    const step = (label, shape, to, on) =>
      h(
        "a",
        {
          href: link("inside", { ...ctx.params, ...to }),
          "aria-current": on ? "true" : null,
          onclick: (event) => {
            event.preventDefault();
            ctx.change(to);
          },
        },
        h("span", label),
        shape && h("small", { class: "num" }, shape),
      );
    const blocks =
      n_layer <= 12
        ? [...Array(n_layer).keys()]
        : [...new Set([0, 1, layer - 1, layer, layer + 1, n_layer - 2, n_layer - 1])]
            .filter((l) => l >= 0 && l < n_layer)
            .sort((a, b) => a - b);
    fill(
      pass,
      step(
        t("pass.embedding"),
        `${tokensHere} × ${n_embd}`,
        { view: "walk", site: "embed" },
        false,
      ),
      blocks.map((l, i) => [
        i > 0 && blocks[i - 1] !== l - 1 && h("span", { class: "quiet gap" }, "⋮"),
        h(
          "div",
          { class: `block${l === layer ? " open" : ""}` },
          step(
            t("pass.block", { n: l }),
            null,
            { layer: l, view: name === "next" ? "lens" : undefined },
            l === layer,
          ),
          l === layer && [
            h(
              "div",
              { class: "heads-row", role: "group", "aria-label": t("pass.heads") },
              [...Array(n_head).keys()].map((x) =>
                h(
                  "a",
                  {
                    href: link("inside", { ...ctx.params, head: x, layer: l, view: "head" }),
                    "aria-current": x === headAt ? "true" : null,
                    "aria-label": t("head.name", { layer: l, head: x }),
                    onclick: (event) => {
                      event.preventDefault();
                      ctx.change({
                        head: x,
                        layer: l,
                        view: ["head", "heads", "walk"].includes(name) ? name : "head",
                      });
                    },
                  },
                  String(x),
                ),
              ),
            ),
            step(
              t("pass.mlp"),
              `${n_embd} → ${ctx.model.inner}`,
              { layer: l, view: "walk", site: "mlp" },
              false,
            ),
          ],
        ),
      ]),
      step(
        t(isPost(ctx.model) ? "pass.head" : "pass.logits"),
        short(vocab_size),
        { view: "next" },
        name === "next",
      ),
    );
  }

  update(ctx);
  return { update };
}

/** Whether this is a model for questions whose training counted answers alone. */
const answersOnly = (model) => Boolean(model.separator) && onlyAnswers(model);

const keepModel = (ctx) => (ctx.params.model ? { model: ctx.params.model } : {});

/** What is asked about: a text, or ids where a model has no tokenizer or the address names them. */
function question_of(model, params, text) {
  const ids = params.ids ?? (model.tokenizer ? null : text);
  if (ids !== null && ids !== undefined)
    return {
      model: model.id,
      ids: String(ids)
        .split(/[\s,]+/)
        .filter((x) => /^\d+$/.test(x))
        .map(Number),
    };
  return { model: model.id, text };
}
