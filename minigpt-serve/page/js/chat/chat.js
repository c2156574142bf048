// Chat: turns in a column, answers that stream; every token with its probability and the next best.
// Other models beside it.
import { h, fill, say, perFrame } from "../dom.js";
import { gap, t } from "../i18n.js";
import { link } from "../router.js";
import { short } from "../numbers.js";
import { visible } from "../tokens.js";
import { empty, noModel } from "../parts/message.js";
import { questions } from "../inside/examples.js";
import { defaultsOf, goesOn, missing } from "../model.js";
import { turnView } from "./turn.js";
import { answer } from "./answer.js";
import { drawer } from "./drawer.js";
import { settingsOf } from "../settings.js";

/** A model that knows ids alone can't talk, but can be looked into. */
function withoutTokenizer(root, ctx) {
  const { id } = ctx.model;
  root.append(
    h("h1", t("chat.title")),
    empty(t("chat.no_tokenizer", { model: id })),
    h(
      "p",
      { class: "row center" },
      h("a", { class: "button", href: link("inside", { model: id }) }, t("learn.inside")),
    ),
  );
  return { update: (next) => next.model?.id === id };
}

/** What was said, by model; kept while the page is open. */
const kept = new Map();
const talk = (model) => {
  if (!kept.has(model)) kept.set(model, []);
  return kept.get(model);
};
const MOST = 4;

export function mount(root, ctx) {
  if (!ctx.model) {
    root.append(h("h1", t("chat.title")), noModel(ctx));
    return {};
  }
  if (!ctx.model.tokenizer) return withoutTokenizer(root, ctx);
  const columns = h("div", { class: "columns" }),
    title = h("h1"),
    box = h("textarea", { rows: 2, dir: "auto" });
  const send = h("button", { type: "submit", class: "primary" }, t("chat.send")),
    halt = h("button", { type: "button", hidden: true }, t("chat.stop"));
  const others = h("span", { class: "row" }),
    panel = drawer(),
    form = h(
      "form",
      box,
      h(
        "div",
        { class: "row spread" },
        h("span", { class: "row" }, panel.toggle, others),
        h("span", { class: "row" }, halt, send),
      ),
    );
  root.append(
    h(
      "div",
      { class: "chat" },
      h(
        "div",
        { class: "row spread chat-title" },
        title,
        h("a", { class: "small", href: link("learn", {}, "7") }, t("chapter.link", { n: 7 })),
      ),
      columns,
      h("div", { class: "ask" }, panel.element, form),
    ),
  );
  let running = null;

  /** The models beside the first, and one more picker for another. */
  const besides = () =>
    [...new Set((ctx.params.beside ?? "").split(","))]
      .map((id) => ctx.models.find((m) => m.id === id && m.id !== ctx.model.id))
      .filter(Boolean)
      .slice(0, MOST - 1);
  const sides = () => [ctx.model, ...besides()];
  function drawPickers() {
    const now = besides().map((m) => m.id),
      free = ctx.models.filter((m) => m.id !== ctx.model.id && !now.includes(m.id));
    const put = (i, id) =>
      ctx.change({ beside: now.toSpliced(i, 1, id).filter(Boolean).join(",") || null });
    const pick = (id, i) =>
      h(
        "select",
        {
          "aria-label": t("chat.beside"),
          disabled: Boolean(running),
          onchange: (event) => put(i, event.target.value),
        },
        h("option", { value: "" }, t("chat.nobody")),
        ctx.models
          .filter((m) => m.id === id || free.includes(m))
          .map((m) =>
            h("option", { value: m.id, selected: m.id === id }, `${m.id} (${short(m.parameters)})`),
          ),
      );
    fill(
      others,
      ctx.models.length > 1 && h("span", { class: "small" }, t("chat.beside")),
      now.map(pick),
      free.length > 0 && now.length < MOST - 1 && pick(null, now.length),
    );
  }

  function draw() {
    const shown = sides();
    columns.parentElement.classList.toggle("many", shown.length > 1);
    // A model that knows no questions goes on with what is typed.
    const on = shown.every(goesOn);
    title.textContent = t(on ? "chat.title.on" : "chat.title");
    box.placeholder = t(on ? "chat.placeholder.on" : "chat.placeholder");
    box.setAttribute("aria-label", box.placeholder);
    drawPickers();
    fill(
      columns,
      shown.map((model) => {
        const turns = talk(model.id);
        return h(
          "section",
          { class: "column", "aria-label": model.id },
          shown.length > 1 && h("h2", model.id),
          turns.length
            ? turns.map((turn, i) =>
                turnView(turn, {
                  model,
                  last: i === turns.length - 1,
                  busy: Boolean(running),
                  retry: () => again(i, turn.question),
                  edit: (text) => again(i, text),
                }),
              )
            : h(
                "div",
                { class: "empty" },
                h("p", t(goesOn(model) ? "chat.empty.on" : "chat.empty"), gap(), t("chat.about")),
                h(
                  "div",
                  { class: "row center" },
                  questions(model).map((question) =>
                    h(
                      "button",
                      { type: "button", onclick: () => ask(question) },
                      visible(question),
                    ),
                  ),
                ),
              ),
        );
      }),
    );
    halt.hidden = !running;
    send.hidden = Boolean(running);
  }

  /** Asks all models that are shown, each with its own history. */
  async function ask(question) {
    if (running || !question.trim()) return;
    const stop = (running = new AbortController());
    const settings = panel.settings();
    const jobs = sides().map((model) => {
      const turns = talk(model.id),
        unknown = missing(model, question),
        turn = {
          question,
          unknown,
          most: settings.max_tokens,
          tokens: [],
          text: "",
          state: "writing",
        };
      turns.push(turn);
      return { model, turns, turn };
    });
    draw();
    columns.querySelector(".turn:last-of-type")?.scrollIntoView({ block: "nearest" });
    await Promise.all(
      jobs.map(async ({ model, turns, turn }) => {
        const view = () =>
          columns
            .querySelectorAll(".column")
            [sides().indexOf(model)]?.querySelector(".turn:last-of-type");
        await answer({
          model,
          turns,
          turn,
          settings,
          signal: stop.signal,
          changed: perFrame(() => view()?.refresh?.()),
        });
      }),
    );
    running = null;
    draw();
    panel.look(jobs[0]);
    say(jobs.map((job) => job.turn.text).join(" "));
  }
  /** Forgets from a turn on and asks again, the same or something else. */
  function again(index, question) {
    sides().forEach((model) => talk(model.id).splice(index));
    ask(question);
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = box.value;
    if (running || !text.trim()) return;
    box.value = "";
    ask(text);
  });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  halt.addEventListener("click", () => running?.abort());
  ctx.signal.addEventListener("abort", () => running?.abort());
  const update = (next) => {
    if (!next.model?.tokenizer) return false;
    ctx = next;
    const defaults = defaultsOf(ctx.model);
    panel.put(settingsOf(ctx.params, defaults), defaults);
    draw();
    return true;
  };
  update(ctx);
  return { update, unmount: () => running?.abort() };
}
