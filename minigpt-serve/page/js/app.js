// The frame: header, places, language, the chosen model; and what happens when the server goes away
// and comes back.
import { h, fill, say } from "./dom.js";
import { t, use, lang, preferred } from "./i18n.js";
import { start, go, change, here, link, PLACES } from "./router.js";
import { json, onKeyWanted, onAway, forget } from "./api.js";
import { short } from "./numbers.js";
import { titleOf } from "./title.js";
import { sleep } from "./events.js";
import { dropTip } from "./parts/tip.js";
import { failure, waiting } from "./parts/message.js";
import * as chat from "./chat/chat.js";
import * as inside from "./inside/inside.js";
import * as training from "./training/training.js";
import * as learn from "./learn/learn.js";

const MOUNTS = { chat, inside, training, learn };
const viewOf = (params) => (Object.hasOwn(inside.VIEWS, params.view ?? "") ? params.view : "next");
const main = document.getElementById("main"),
  header = document.getElementById("header");
let models = null,
  features = {},
  mounted = null,
  stop = new AbortController(),
  problem = null;

function remembered(name) {
  try {
    return localStorage.getItem(`minigpt.${name}`);
  } catch {
    return null;
  }
}
function remember(name, value) {
  try {
    localStorage.setItem(`minigpt.${name}`, value);
  } catch {
    /* for this visit */
  }
}

use(
  preferred(
    new URLSearchParams(location.search).get("lang") ?? remembered("language"),
    navigator.languages ?? [],
  ),
);

/** The model that the address names, or the first. */
const chosen = (params) =>
  models?.find((model) => model.id === params.model) ?? models?.[0] ?? null;

/** `runs` are those that the training shows, once it knows them. */
function drawTitle({ place, params }, runs) {
  const model = chosen(params);
  const name = place === "inside" && model ? t(`view.${viewOf(params)}`) : t(`nav.${place}`);
  document.title = titleOf({ place, params }, { name, model, runs });
}

function drawHeader({ place, params }) {
  const model = chosen(params);
  const keep = params.model ? { model: params.model } : {};
  document.querySelector(".skip").textContent = t("skip");
  document.getElementById("loading").setAttribute("aria-label", t("loading"));
  drawTitle({ place, params });
  fill(
    header,
    h(
      "div",
      { class: "bar" },
      h(
        "a",
        { class: "brand", href: link("chat", keep), "aria-label": "MiniGPT" },
        h("img", { src: "icon.svg", alt: "" }),
        h("span", "MiniGPT"),
      ),
      h(
        "nav",
        { "aria-label": t("nav.label") },
        PLACES.map((name) =>
          h(
            "a",
            { href: link(name, keep), "aria-current": name === place ? "page" : null },
            t(`nav.${name}`),
          ),
        ),
      ),
      h(
        "div",
        { class: "right" },
        models?.length
          ? h(
              "select",
              {
                "aria-label": t("model"),
                onchange: (event) =>
                  change({ model: event.target.value, layer: null, head: null, at: null }),
              },
              models.map((m) =>
                h(
                  "option",
                  { value: m.id, selected: m.id === model?.id },
                  innerWidth < 480 ? m.id : `${m.id} (${short(m.parameters)})`,
                ),
              ),
            )
          : null,
        h(
          "button",
          {
            type: "button",
            class: "plain",
            "aria-label": t("language.switch"),
            title: t("language.switch"),
            lang: lang() === "en" ? "zh" : "en",
            onclick: switchLanguage,
          },
          t("language.other"),
        ),
        h(
          "button",
          {
            type: "button",
            class: "plain",
            "aria-label": t("theme.switch"),
            title: t("theme.switch"),
            onclick: () => window.switchTheme(),
          },
          "◐",
        ),
      ),
    ),
  );
}

function switchLanguage() {
  use(lang() === "en" ? "zh" : "en");
  remember("language", lang());
  remount();
  header.querySelector(".right button")?.focus();
}

function context(at) {
  return {
    params: at.params,
    rest: at.rest,
    models: models ?? [],
    model: chosen(at.params),
    features,
    signal: stop.signal,
    titled: (runs) => drawTitle(at, runs),
    change,
    go,
  };
}

function show(at) {
  dropTip();
  drawHeader(at);
  if (problem) {
    fill(main, failure(problem, load));
    return;
  }
  if (!models) {
    fill(main, waiting(400));
    return;
  }
  // A place that can't go on with what is chosen now says false, and is made anew.
  if (mounted?.place === at.place && mounted.update?.(context(at)) !== false) return;
  remount();
}

function remount() {
  const at = here();
  stop.abort();
  stop = new AbortController();
  mounted?.unmount?.();
  mounted = null;
  drawHeader(at);
  if (problem) {
    fill(main, failure(problem, load));
    return;
  }
  if (!models) {
    fill(main, waiting(400));
    return;
  }
  const moved = main.dataset.place !== at.place;
  main.dataset.place = at.place;
  fill(main);
  mounted = { place: at.place, ...MOUNTS[at.place].mount(main, context(at)) };
  if (moved) {
    scrollTo(0, 0);
    say(t(`nav.${at.place}`));
  }
}

async function load() {
  problem = null;
  try {
    const answer = await json("/v1/inspect/models");
    models = answer.models;
    features = answer;
    forget();
  } catch (error) {
    if (error.status === 503 || error.status === 0) {
      await back();
      return;
    }
    problem = error;
  }
  remount();
}

/** The server is away: says so, asks until it answers, then goes on where the page was. */
let returning = null;
function back() {
  return (returning ??= (async () => {
    const notice = h("div", { class: "away", role: "status" }, t("away"));
    header.after(notice);
    for (let first = true; ; first = false) {
      if (!first) await sleep(1000);
      try {
        const answer = await fetch("/health", { cache: "no-store" });
        if (answer.ok) break;
        fill(notice, t("away.loading"));
      } catch {
        fill(notice, t("away"));
      }
      await sleep(200);
    }
    notice.remove();
    returning = null;
    await load();
  })());
}

onAway(() => {
  back();
});
onKeyWanted(
  (wrong) =>
    new Promise((done) => {
      const input = h("input", {
        type: "password",
        autocomplete: "off",
        "aria-label": t("key.label"),
      });
      const dialog = h(
        "dialog",
        { "aria-label": t("key.label") },
        h(
          "form",
          { method: "dialog" },
          h("p", wrong ? t("key.wrong") : t("key.wanted")),
          h("p", { class: "row" }, input, h("button", { class: "primary" }, t("key.use"))),
        ),
      );
      dialog.addEventListener("close", () => {
        dialog.remove();
        done(input.value || null);
      });
      document.body.append(dialog);
      dialog.showModal();
    }),
);
addEventListener("themechange", remount);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
start(show);
load();
