// Where does the difference between two texts sit? What stood at one place in the clean pass is put
// into the other.
import { h } from "../dom.js";
import { t } from "../i18n.js";
import { inspect } from "../api.js";
import { nameOf } from "../tokens.js";
import { number, percent, fixed } from "../numbers.js";
import { heatmap, framed, room } from "../parts/heatmap.js";
import { legend } from "../parts/legend.js";
import { differenceScale } from "../parts/paint.js";
import { failure, empty } from "../parts/message.js";
import { pairs, longer as examples } from "./examples.js";

/** The model's reading of a text or of ids. */
const read = (model, text, signal) =>
  inspect(
    "read",
    model.tokenizer
      ? { model: model.id, text }
      : { model: model.id, ids: text.split(/\D+/).filter(Boolean).map(Number) },
    { signal },
  );

/** Two texts in one line: what they share, and in brackets what they don't. */
function difference(a, b) {
  let from = 0,
    end = 0;
  while (from < Math.min(a.length, b.length) && a[from] === b[from]) from++;
  while (end < Math.min(a.length, b.length) - from && a.at(-1 - end) === b.at(-1 - end)) end++;
  return `${a.slice(0, from)}[${a.slice(from, a.length - end)} | ${b.slice(from, b.length - end)}]${a.slice(a.length - end)}`;
}

/** Pairs that have equally many tokens in this model, and lead to different answers. */
async function fitting(model, signal) {
  const found = [];
  for (const pair of pairs(model)) {
    const [a, b] = await Promise.all(pair.map((text) => read(model, text, signal)));
    if (a.ids.length === b.ids.length && a.top[0]?.id !== b.top[0]?.id) found.push(pair);
  }
  return found;
}

export default async function patching(chosen) {
  const { model, reading, params, change, signal } = chosen,
    offers = await fitting(model, signal),
    own = params.text ?? params.ids ?? examples(model)[0];
  // Without a second text: the other half of an example, where the text above is one.
  const second =
    params.other ??
    offers
      .map((pair) => (pair[0] === own ? pair[1] : pair[1] === own ? pair[0] : null))
      .find(Boolean) ??
    "";
  const input = h("input", {
    type: "text",
    class: "mono wide",
    dir: "auto",
    value: second,
    "aria-label": t("patching.other"),
    placeholder: t("patching.placeholder"),
  });
  const form = h(
    "form",
    {
      class: "row",
      onsubmit: (event) => {
        event.preventDefault();
        change({ other: input.value });
      },
    },
    h("label", t("patching.other")),
    input,
    h("button", { class: "primary" }, t("patching.go")),
  );
  const offered =
    offers.length > 0 &&
    h(
      "div",
      { class: "row small offered" },
      h("span", { class: "quiet" }, t("examples")),
      offers.map(([clean, other]) =>
        h(
          "button",
          {
            type: "button",
            class: "plain",
            onclick: () =>
              change(
                model.tokenizer
                  ? { text: clean, other, at: null }
                  : { ids: clean, other, at: null },
              ),
          },
          difference(clean, other),
        ),
      ),
    );
  const top = [h("p", { class: "prose quiet" }, t("patching.lead")), form, offered];
  if (!second) return [...top, empty(t(offers.length ? "patching.none" : "patching.none.alone"))];
  try {
    const other = await read(model, second, signal);
    const found = await inspect(
      "patch",
      { model: model.id, clean: reading.ids, corrupt: other.ids },
      { signal },
    );
    return [...top, maps(found, reading, other, chosen)];
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return [...top, failure(error)];
  }
}

function maps(found, reading, other, { change, layer, head, at, model }) {
  const name = (id, token) => nameOf({ id, token });
  const label = (p) => {
    const [a, b] = [nameOf(reading.tokens[p]), nameOf(other.tokens[p])];
    return a === b ? a : `${a} / ${b}`;
  };
  const scale = differenceScale(1),
    n = reading.tokens.length,
    layers = found.layers_positions.length;
  const cell = Math.max(14, Math.min(40, Math.floor(room(620) / n)));
  const describe = (title, x) => [
    h("strong", { dir: "auto" }, title),
    h("p", t("patching.back", { share: percentOf(x) })),
  ];
  const positions = heatmap({
    rows: layers,
    columns: n,
    cell,
    width: 640,
    label: t("patching.positions"),
    scale: (x) => scale(-x),
    value: (l, p) => found.layers_positions[l][p],
    selected: [layer, at],
    describe: (l, p) =>
      describe(`${t("pass.block", { n: l })} · ${label(p)}`, found.layers_positions[l][p]),
    spoken: (l, p) =>
      `${t("pass.block", { n: l })}, ${label(p)}: ${percentOf(found.layers_positions[l][p])}`,
    onselect: (l, p) => change({ layer: l, at: p }, { replace: true }),
  });
  const heads = heatmap({
    rows: layers,
    columns: model.config.n_head,
    cell: 40,
    width: 520,
    label: t("patching.heads"),
    scale: (x) => scale(-x),
    value: (l, x) => found.layers_heads[l][x],
    selected: [layer, head],
    describe: (l, x) => describe(t("head.name", { layer: l, head: x }), found.layers_heads[l][x]),
    spoken: (l, x) =>
      `${t("head.name", { layer: l, head: x })}: ${percentOf(found.layers_heads[l][x])}`,
    onselect: (l, x) => change({ layer: l, head: x }, { replace: true }),
  });
  return h(
    "div",
    h(
      "p",
      t("patching.found", {
        answer: name(found.answer, found.answer_token),
        other: name(found.other, found.other_token),
        clean: number(found.clean),
        corrupt: number(found.corrupt),
      }),
    ),
    h(
      "div",
      { class: "row top" },
      h(
        "figure",
        h("figcaption", t("patching.positions")),
        framed(positions, {
          rows: layers,
          columns: n,
          cell,
          names: [(l) => t("pass.block", { n: l }), label],
        }),
      ),
      h(
        "figure",
        h("figcaption", t("patching.heads")),
        framed(heads, {
          rows: layers,
          columns: model.config.n_head,
          cell: 40,
          names: [(l) => t("pass.block", { n: l }), (x) => t("head.short", { head: x })],
        }),
      ),
    ),
    legend({
      label: t("legend.restored"),
      scale: (x) => scale(-x),
      at: [-1, 0, 1],
      format: (x) => `${fixed(100 * x, 0)} %`,
    }),
  );
}
const percentOf = (x) => `${fixed(100 * x, 1)} %`;
export { percent };
