// What to say where something can't be shown: what went wrong and what to do; or what is missing
// and how to get it.
import { h, fill } from "../dom.js";
import { t } from "../i18n.js";
import { visible } from "../tokens.js";

export function failure(error, retry) {
  return h(
    "div",
    { class: "failure", role: "alert" },
    h("p", error.message || String(error)),
    retry && h("button", { type: "button", onclick: retry }, t("retry")),
  );
}

export function empty(text, command) {
  return h("div", { class: "empty" }, h("p", text), command && h("p", h("code", command)));
}

/** Which characters of a text the model can't read, where there are some. */
export function lacking(characters, model) {
  if (!characters?.length) return null;
  const shown = characters.slice(0, 20).map(visible);
  const list = shown.join(" ") + (characters.length > shown.length ? " …" : "");
  const told = t(model?.unk ? "unknown.as_unk" : "unknown.left_out", { list });
  return h("p", { class: "small lacking", role: "note" }, told);
}

/** No model is served: how to get one; and where the runs are, if there are some to watch. */
export function noModel({ features }) {
  return h(
    "div",
    { class: "empty" },
    h("p", t("empty.model")),
    h("p", h("code", "minigpt demo"), " ", h("code", "minigpt serve --open")),
    features.runs && h("p", h("a", { href: "#/training" }, t("empty.runs"))),
  );
}

/** A place of a fixed least height in which something will appear. */
export function waiting(height = 240) {
  return h(
    "div",
    { class: "waiting", style: { "min-height": `${height}px` }, "aria-busy": "true" },
    h("span", { class: "unseen" }, t("loading")),
  );
}

/**
 * Shows what `make` gives, a placeholder until then, and what went wrong instead; keeps the height
 * meanwhile.
 */
export async function show(box, make, { signal, height = 240 } = {}) {
  const before = box.getBoundingClientRect().height;
  if (!box.childElementCount) box.replaceChildren(waiting(height));
  else {
    box.style.minHeight = `${before}px`;
    box.setAttribute("aria-busy", "true");
  }
  const mine = (box.turn = (box.turn ?? 0) + 1);
  const done = (...nodes) => {
    if (mine !== box.turn || signal?.aborted) return;
    fill(box, nodes);
    box.style.minHeight = "";
    box.removeAttribute("aria-busy");
  };
  try {
    done(await make());
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!error.status && error.code !== "away") console.error(error);
    done(failure(error, error.status === 400 ? null : () => show(box, make, { signal, height })));
  }
}
