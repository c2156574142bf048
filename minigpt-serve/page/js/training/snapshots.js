// A slider over the snapshots of a run: the same text's tokens, attention, lens, roles and answer
// as the model learned.
import { h, fill } from "../dom.js";
import { t } from "../i18n.js";
import { inspect } from "../api.js";
import { whole } from "../address.js";
import { here } from "../router.js";
import { number, percent, short } from "../numbers.js";
import { visible } from "../tokens.js";
import { bars } from "../parts/bars.js";
import { strip } from "../parts/strip.js";
import { empty, failure, lacking } from "../parts/message.js";
import { nameOf } from "../tokens.js";
import { firstText } from "../inside/examples.js";
import { goesOn } from "../model.js";
import { lensTable } from "../inside/lens.js";
import { large } from "../inside/heads.js";
import { oneHead } from "../inside/heads-data.js";
import { planned, roleMarks } from "./series.js";

const questionOf = (about, model, text) =>
  about.tokenizer ? { model, text } : { model, ids: text.split(/\D+/).filter(Boolean).map(Number) };

/** Everything that moves with the slider. */
const looks = ({ model, ids, layer, head, signal }) =>
  Promise.all([
    oneHead({ model, ids, layer, head, signal }),
    inspect("lens", { model, ids, top: 1 }, { signal }),
    inspect("continue", { model, ids, tokens: 16 }, { signal }),
    inspect("heads", { model }, { signal }).catch(() => null),
  ]);

/**
 * Draws into `box` the snapshots of one of these runs: the one that the address names, or the first.
 * `found` hears the steps at which roles appear.
 */
export function snapshots(box, context, runs, found) {
  let shown = null,
    asked = 0,
    parts = null,
    searched = null;
  function frame(all) {
    const input = h("input", {
      type: "text",
      class: "mono wide",
      dir: "auto",
      "aria-label": t("inside.text"),
    });
    const range = h("input", {
      type: "range",
      min: 0,
      max: all.length - 1,
      step: 1,
      "aria-label": t("snapshots.slider"),
      list: null,
    });
    const name = h("output", { class: "num" }),
      body = h("div", { class: "snapshot-body" });
    const pick = (kind, count) =>
      h(
        "select",
        {
          "aria-label": t(kind === "layer" ? "layer" : "head"),
          onchange: (event) => context().change({ [kind]: event.target.value }, { replace: true }),
        },
        Array.from({ length: count }, (_, i) =>
          h("option", { value: i }, t(`${kind}.short`, { [kind]: i })),
        ),
      );
    const selects = h("span", { class: "row" });
    const play = h("button", { type: "button", onclick: () => toggle() }, t("snapshots.play"));
    let timer = null;
    const toggle = () => {
      if (timer) {
        clearInterval(timer);
        timer = null;
        play.textContent = t("snapshots.play");
        return;
      }
      play.textContent = t("snapshots.pause");
      if (Number(range.value) >= all.length - 1) range.value = 0;
      timer = setInterval(() => {
        if (!box.isConnected || Number(range.value) >= Number(range.max)) {
          toggle();
          return;
        }
        range.value = Number(range.value) + 1;
        range.dispatchEvent(new Event("input"));
      }, 900);
    };
    range.addEventListener("input", () =>
      context().change({ snap: range.value }, { replace: true }),
    );
    input.addEventListener("change", () =>
      context().change({ text: input.value }, { replace: true }),
    );
    const which = h("div", { class: "row which" });
    fill(
      box,
      h("p", { class: "prose quiet" }, t("snapshots.lead")),
      which,
      h("div", { class: "row" }, h("label", t("inside.text")), input),
      h("div", { class: "row snapshot-slider" }, play, range, name, selects),
      body,
    );
    return { input, range, name, body, pick, selects, which };
  }

  /** Says which run is shown, and lets one choose where several have snapshots. */
  function sayRun(all, chosen) {
    const choose = (event) =>
      context().change(
        { of: event.target.value, snap: null, text: null, layer: null, head: null },
        { replace: true },
      );
    const option = ({ name }) => h("option", { value: name, selected: name === chosen.name }, name);
    fill(
      parts.which,
      all.length > 1
        ? h(
            "label",
            { class: "row" },
            t("snapshots.run"),
            h("select", { onchange: choose }, all.map(option)),
          )
        : [t("snapshots.run"), " ", h("strong", chosen.name)],
    );
  }

  async function update() {
    const several = runs().filter((run) => run.snapshots?.length);
    const chosen = several.find((run) => run.name === context().params.of) ?? several[0];
    if (!chosen) {
      shown = null;
      const n = planned(runs(), "snapshots");
      if (n > 0) fill(box, empty(t("snapshots.planned", { n })));
      else fill(box, empty(t("snapshots.none"), "minigpt train … --set train.snapshots=12"));
      return;
    }
    const { params, signal } = context(),
      all = chosen.snapshots;
    if (shown !== chosen.name || !parts) {
      shown = chosen.name;
      parts = frame(all);
    }
    const at = whole(params.snap, 0, all.length - 1, all.length - 1),
      now = all[at],
      mine = ++asked;
    sayRun(several, chosen);
    parts.range.max = all.length - 1;
    parts.range.value = at;
    parts.name.value = `${t("step.at", { n: short(now.step) })} (${at + 1}/${all.length})`;
    parts.range.setAttribute("aria-valuetext", parts.name.value);
    try {
      const about = (await inspect("models", { model: now.model }, { signal })).model;
      const text = params.text ?? firstText(chosen, about);
      if (document.activeElement !== parts.input) parts.input.value = text;
      const reading = await inspect("read", questionOf(about, now.model, text), { signal });
      const layer = whole(params.layer, 0, about.config.n_layer - 1, about.config.n_layer - 1),
        head = whole(params.head, 0, about.config.n_head - 1, 0);
      const [pattern, lens, goes, roles] = await looks({
        model: now.model,
        ids: reading.ids,
        layer,
        head,
        signal,
      });
      if (mine !== asked || signal.aborted) return;
      draw({ about, reading, layer, head, pattern, lens, roles, goes });
      const key = JSON.stringify([chosen.name, all.length, text, layer, head]);
      if (searched !== key) {
        searched = key;
        const of = several.length > 1 ? chosen.name : null;
        search(all, { about, text, layer, head, key, signal, of });
      }
    } catch (error) {
      if (error.name !== "AbortError") fill(parts.body, failure(error, update));
    }
  }

  function draw({ about, reading, layer, head, pattern, lens, roles, goes }) {
    const last = reading.tokens.length - 1;
    if (parts.selects.childElementCount === 0)
      fill(
        parts.selects,
        parts.pick("layer", about.config.n_layer),
        parts.pick("head", about.config.n_head),
      );
    [...parts.selects.children].forEach((select, i) => {
      select.value = String(i ? head : layer);
    });
    const chosen = { reading, at: last };
    const role = roles?.heads.filter((one) => one.role) ?? [];
    fill(
      parts.body,
      h(
        "section",
        h("h3", t(goesOn(about) ? "snapshots.goes_on" : "snapshots.answer")),
        h("p", { class: "mono goes-on", dir: "auto" }, visible(goes.text ?? goes.ids.join(" "))),
        strip({ tokens: reading.tokens }),
        lacking(reading.unknown, about),
        h("p", { class: "num small" }, t("snapshots.loss", { loss: number(reading.loss) })),
        bars({
          most: 1,
          rows: reading.top.slice(0, 5).map((token) => ({
            name: nameOf(token),
            value: token.probability,
            text: percent(token.probability),
          })),
        }),
      ),
      h(
        "section",
        h("h3", t("head.name", { layer, head })),
        ...large(chosen, pattern, { width: 300, height: 300 }),
      ),
      h(
        "section",
        { class: "span" },
        h("h3", t("view.lens")),
        lensTable({ cells: lens.lens, reading, at: last, layer }),
      ),
      h(
        "section",
        { class: "span" },
        h("h3", t("snapshots.roles")),
        role.length
          ? bars({
              most: 1,
              rows: role.map((one) => ({
                name: `${one.layer}.${one.head} ${t(`role.${one.role}`)}`,
                value: one[one.role],
                text: `${one[one.role].toFixed(2)} (${one.baseline[one.role].toFixed(2)})`,
              })),
            })
          : h("p", { class: "quiet" }, t("snapshots.no_roles")),
      ),
    );
  }

  /**
   * Goes through all snapshots, one question after the other, so that the slider finds its answers
   * ready; and finds the first  at which each role is there, to be marked on the loss curve.
   */
  async function search(all, { about, text, layer, head, key, signal, of }) {
    const first = new Map();
    for (const { step, model } of all.toReversed()) {
      let roles;
      try {
        const { ids } = await inspect("read", questionOf(about, model, text), { signal });
        for (const look of [
          () => oneHead({ model, ids, layer, head, signal }),
          () => inspect("lens", { model, ids, top: 1 }, { signal }),
          () => inspect("continue", { model, ids, tokens: 16 }, { signal }),
          () => inspect("models", { model }, { signal }),
        ]) {
          if (signal.aborted || searched !== key || here().place !== "training") return;
          await look();
        }
        roles = await inspect("heads", { model }, { signal }).catch(() => ({ heads: [] }));
      } catch {
        return;
      }
      for (const one of roles.heads)
        if (one.role) first.set(one.role, { step, layer: one.layer, head: one.head });
    }
    found(roleMarks(first, { of, say: (role) => t(`role.${role}`) }));
  }
  update();
  return { update };
}
