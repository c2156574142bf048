// Learn: seven chapters. Text by language, figures that live on the loaded model or on worked
// examples.
import { h, fill, marked } from "../dom.js";
import { t, lang } from "../i18n.js";
import { whole } from "../address.js";
import { link } from "../router.js";
import { formula } from "../parts/formula.js";
import { failure, waiting } from "../parts/message.js";
import { factsOf } from "../model.js";
import { FIGURES } from "./figures.js";

export const CHAPTERS = 7;
const load = (n) => import(`./${lang()}/${n}.js`).then((module) => module.default);

export function mount(root, ctx) {
  const aside = h("nav", { class: "chapters", "aria-label": t("learn.chapters") }),
    article = h("article", { class: "chapter" });
  root.append(h("div", { class: "learn" }, aside, article));
  let shown = null;
  const keep = () => (ctx.params.model ? { model: ctx.params.model } : {});

  async function contents(now) {
    const chapters = await Promise.all(Array.from({ length: CHAPTERS }, (_, i) => load(i + 1)));
    fill(
      aside,
      h(
        "ol",
        chapters.map((chapter, i) =>
          h(
            "li",
            h(
              "a",
              {
                href: link("learn", keep(), String(i + 1)),
                "aria-current": i + 1 === now ? "page" : null,
              },
              chapter.title,
            ),
          ),
        ),
      ),
    );
  }

  async function update(next) {
    ctx = next;
    const n = whole(ctx.rest, 1, CHAPTERS, 1),
      key = `${n} ${ctx.model?.id}`;
    if (shown === key) return;
    const turned = shown !== null;
    shown = key;
    contents(n).catch(() => {});
    if (!article.childElementCount) fill(article, waiting(600));
    try {
      const chapter = await load(n);
      if (shown !== key) return;
      document.title = [chapter.title, ctx.model?.id, "MiniGPT"].filter(Boolean).join(" · ");
      fill(
        article,
        h("p", { class: "quiet small" }, t("learn.chapter", { n, all: CHAPTERS })),
        h("h1", chapter.title),
        h(
          "p",
          { class: "small quiet" },
          ctx.model ? t("learn.with", { model: ctx.model.id }) : t("learn.without"),
        ),
        chapter.body.map(part),
        h(
          "section",
          { class: "prose" },
          h("h2", t("learn.try")),
          h(
            "ul",
            chapter.try.map((line) => h("li", marked(told(line)))),
          ),
        ),
        h(
          "section",
          { class: "prose know" },
          h("h2", t("learn.know")),
          h(
            "ul",
            chapter.know.map((line) => h("li", marked(told(line)))),
          ),
        ),
        h(
          "nav",
          { class: "row spread", "aria-label": t("learn.turn") },
          n > 1
            ? h(
                "a",
                { class: "button", href: link("learn", keep(), String(n - 1)) },
                t("learn.before"),
              )
            : h("span"),
          n < CHAPTERS
            ? h(
                "a",
                { class: "button", href: link("learn", keep(), String(n + 1)) },
                t("learn.after"),
              )
            : h("a", { class: "button", href: link("inside", keep()) }, t("learn.inside")),
        ),
      );
      if (turned) scrollTo(0, 0);
    } catch (error) {
      fill(article, failure(error));
    }
  }

  /** A sentence; one about the loaded model is made from what is known of it. */
  const told = (line) => (typeof line === "function" ? line(factsOf(ctx.model)) : line);

  function part(piece) {
    if (typeof piece !== "object") return h("p", { class: "prose" }, marked(told(piece)));
    if (piece.formula)
      return h("div", { class: "prose" }, formula(piece.formula, ctx.model?.config));
    const box = h("div", { class: "figure-body" });
    const figure = h(
      "figure",
      { class: "figure panel" },
      box,
      h("figcaption", { class: "small quiet" }, t(`figure.${piece.figure}`)),
    );
    try {
      fill(box, FIGURES[piece.figure](ctx));
    } catch (error) {
      console.error(error);
      fill(box, failure(error));
    }
    return figure;
  }
  update(ctx);
  return { update };
}
