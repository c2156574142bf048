// What the figures share: a text that one can change, and a body that follows it.
import { h, settled } from "../../dom.js";
import { t } from "../../i18n.js";
import { inspect } from "../../api.js";
import { show, lacking } from "../../parts/message.js";
import { missing } from "../../model.js";
import { examples } from "../../inside/examples.js";

/** An input, and below it what `make(text)` gives, made anew when the text has settled. */
export function typed({ text, label, make, ctx, height = 120, wait = 250, reads = true }) {
  const body = h("div"),
    input = h("input", {
      type: "text",
      class: "wide mono",
      value: text,
      "aria-label": label,
      dir: "auto",
    });
  // Where the model reads the text: which of its characters it can't.
  const unread = () =>
    reads && ctx.model?.tokenizer ? lacking(missing(ctx.model, input.value), ctx.model) : null;
  const made = async () => [unread(), await make(input.value)];
  const draw = () => show(body, made, { signal: ctx.signal, height });
  input.addEventListener("input", settled(draw, wait));
  draw();
  return [h("label", { class: "small quiet" }, label, input), body];
}

/** The loaded model's reading of a text. */
export const read = (ctx, text) =>
  inspect(
    "read",
    ctx.model.tokenizer
      ? { model: ctx.model.id, text }
      : { model: ctx.model.id, ids: text.split(/\D+/).filter(Boolean).map(Number) },
    { signal: ctx.signal },
  );
export const example = (ctx) => (ctx.model ? examples(ctx.model)[0] : "");
export const choose = (label, count, name, onchange, value = 0) =>
  h(
    "label",
    { class: "row small" },
    label,
    h(
      "select",
      { onchange: (event) => onchange(Number(event.target.value)) },
      Array.from({ length: count }, (_, i) =>
        h("option", { value: i, selected: i === value }, name(i)),
      ),
    ),
  );
export const note = (text) => h("p", { class: "small quiet" }, text);
export const noModel = () => note(t("figure.no_model"));
