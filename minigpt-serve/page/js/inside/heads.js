// Which earlier tokens does each head look at? Layers down, heads across; measured roles; one head
// large beside its numbers.
import { h, fill } from "../dom.js";
import { t } from "../i18n.js";
import { inspect } from "../api.js";
import { nameOf } from "../tokens.js";
import { number, percent, fixed } from "../numbers.js";
import { heatmap, framed, room } from "../parts/heatmap.js";
import { legend } from "../parts/legend.js";
import { attentionScale } from "../parts/paint.js";
import { tip } from "../parts/tip.js";
import { failure } from "../parts/message.js";
import { oneHead, smallHeads } from "./heads-data.js";

const SIZE = 48;
/** Up to so many heads side by side there is room for words below them. */
const FEW = 6;

export default async function heads(chosen, state) {
  const { model, reading, layer, head, at, change, signal, key } = chosen;
  const { n_layer, n_head } = model.config;
  const grid =
    state.grid?.key === `${model.id} ${key} ${document.documentElement.dataset.theme} ${t("model")}`
      ? state.grid
      : (state.grid = makeGrid(chosen));
  grid.select(layer, head);
  const big = h("div", { class: "big-head" });
  const pattern = await oneHead({ model: model.id, ids: reading.ids, layer, head, signal });
  fill(big, h("h3", t("head.name", { layer, head })), ...large(chosen, pattern));
  chosen.overlay.draw(at, pattern.row(at));
  return [
    h("p", { class: "prose quiet" }, t("heads.lead")),
    h(
      "div",
      { class: `heads${n_head > FEW ? " many" : ""}` },
      h("div", { class: "scroll" }, grid.element),
      big,
    ),
    grid.note,
    n_layer * n_head === 1 ? h("p", { class: "quiet" }, t("heads.one")) : null,
  ];
}

/** One head large, with scrolling. */
export function large(chosen, pattern, { height = 400, width = 400 } = {}) {
  width = room(width);
  const { reading, at, change, overlay } = chosen,
    n = pattern.n;
  const cell = n > 400 ? 8 : n > 60 ? 12 : Math.max(14, Math.min(40, Math.floor(width / n)));
  const names = (i) => nameOf(reading.tokens[i]);
  const map = heatmap({
    rows: n,
    columns: n,
    cell,
    width,
    height,
    pixels: pattern.image(),
    label: t("heads.map"),
    selected: [at, at],
    describe: (i, j) => [
      h("strong", { class: "mono", dir: "auto" }, `${names(i)} → ${names(j)}`),
      h(
        "dl",
        [
          [t("heads.query"), i],
          [t("heads.key"), j],
          [t("heads.weight"), j > i ? t("heads.hidden") : percent(pattern.weight(i, j))],
        ].map(([a, b]) => [h("dt", a), h("dd", { class: "num" }, String(b))]),
      ),
    ],
    spoken: (i, j) =>
      `${names(i)} → ${names(j)}: ${j > i ? t("heads.hidden") : percent(pattern.weight(i, j))}`,
    onpoint: (cellNow) => {
      const i = cellNow ? cellNow[0] : at;
      overlay?.draw(i, pattern.row(i));
    },
    onselect: (i) => change?.({ at: i }, { replace: true }),
  });
  return [
    framed(map, { rows: n, columns: n, cell, names: [names, names] }),
    h("p", { class: "small quiet" }, t("heads.read")),
    legend({
      label: t("legend.attention"),
      scale: attentionScale(),
      at: [0, 0.25, 0.5, 0.75, 1],
      format: (x) => percent(x).replace(".0", ""),
    }),
  ];
}

function makeGrid({ model, reading, change, signal, key }) {
  const { n_layer, n_head } = model.config;
  const cells = [],
    roles = [];
  const element = h(
    "div",
    {
      class: `head-grid${n_head > FEW ? " dense" : ""}`,
      role: "group",
      "aria-label": t("heads.grid"),
      style: {
        "grid-template-columns": `2.4rem repeat(${n_head}, ${n_head > FEW ? "minmax(20px, 58px)" : "minmax(58px, 92px)"})`,
      },
    },
    h("span"),
    Array.from({ length: n_head }, (_, head) =>
      h("span", { class: "small quiet" }, t("head.short", { head })),
    ),
  );
  for (let layer = 0; layer < n_layer; layer++) {
    element.append(h("span", { class: "small quiet layer-name" }, t("layer.short", { layer })));
    for (let head = 0; head < n_head; head++) {
      const canvas = h("canvas", { class: "thumb", width: 10, height: 10 }),
        role = h("span", { class: "role" }, "\u00a0");
      const button = h(
        "button",
        { type: "button", class: "head-cell", onclick: () => change({ layer, head }) },
        h("span", { class: "unseen" }, t("head.name", { layer, head })),
        canvas,
        role,
      );
      const index = layer * n_head + head;
      cells[index] = { button, canvas };
      roles[index] = role;
      tip(button, () => button.about);
      element.append(button);
    }
  }
  // A layer is fetched when it comes into sight.
  const seen = new IntersectionObserver(
    (entries) =>
      entries
        .filter((entry) => entry.isIntersecting)
        .forEach((entry) => {
          const layer = Number(entry.target.dataset.layer);
          seen.unobserve(entry.target);
          smallHeads({
            model: model.id,
            ids: reading.ids,
            layer,
            size: SIZE,
            heads: n_head,
            signal,
          })
            .then((images) =>
              images.forEach((image, head) => {
                const { canvas } = cells[layer * n_head + head];
                canvas.width = canvas.height = image.width;
                canvas.getContext("2d").drawImage(image, 0, 0);
              }),
            )
            .catch((error) => {
              if (error.name !== "AbortError") roles[layer * n_head].textContent = "⚠";
            });
        }),
    { rootMargin: "600px" },
  );
  for (let layer = 0; layer < n_layer; layer++) {
    const { button } = cells[layer * n_head];
    button.dataset.layer = layer;
    seen.observe(button);
  }
  const note = h("div", { class: "small quiet role-note" });
  measure(model, cells, roles, note, signal);
  return {
    key: `${model.id} ${key} ${document.documentElement.dataset.theme} ${t("model")}`,
    element,
    note,
    select: (layer, head) =>
      cells.forEach(({ button }, i) =>
        button.setAttribute("aria-pressed", String(i === layer * n_head + head)),
      ),
  };
}

async function measure(model, cells, roles, note, signal) {
  try {
    const measured = await inspect("heads", { model: model.id }, { signal });
    measured.heads.forEach((found, i) => {
      // The role, or the one that it comes nearest to, with its score and that of untrained
      // weights.
      const near =
        found.role ??
        ["previous", "duplicate", "induction"].sort(
          (a, b) => found[b] - found.baseline[b] - found[a] + found.baseline[a],
        )[0];
      fill(
        roles[i],
        h("strong", found.role ? t(`role.${found.role}`) : t("role.none")),
        h(
          "span",
          { class: "num" },
          `${found.role ? "" : `${t(`role.${near}`)} `}${fixed(found[near], 2)} (${fixed(found.baseline[near], 2)})`,
        ),
      );
      roles[i].classList.toggle("named", Boolean(found.role));
      cells[i].button.classList.toggle("named", Boolean(found.role));
      const line = (name) => [
        h("dt", t(`role.${name}`)),
        h("dd", { class: "num" }, `${fixed(found[name], 2)} (${fixed(found.baseline[name], 2)})`),
      ];
      cells[i].button.about = [
        h("strong", t("head.name", { layer: found.layer, head: found.head })),
        h("dl", line("previous"), line("duplicate"), line("induction")),
        h("p", t("heads.baseline")),
      ];
      if (found.role)
        cells[i].button.firstChild.textContent =
          `${t("head.name", { layer: found.layer, head: found.head })}: ${t(`role.${found.role}`)}.`;
    });
    const c = measured.copying;
    fill(
      note,
      t("heads.margin", {
        margin: measured.margin,
        first: number(c.first_half_loss, 3),
        second: number(c.second_half_loss, 3),
      }),
    );
  } catch (error) {
    if (error.name !== "AbortError")
      fill(note, error.status === 400 ? error.message : failure(error));
  }
}
