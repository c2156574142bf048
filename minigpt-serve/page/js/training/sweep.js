// A sweep of runs for a scaling law: one entry with its pictures, each with the question that it
// answers, and the law in words.
import { h } from "../dom.js";
import { t } from "../i18n.js";

const ORDER = ["loss.svg", "isoflop.svg", "residuals.svg"];
const questionOf = (name) => (ORDER.includes(name) ? t(`sweep.${name.replace(".svg", "")}`) : name);

export function sweep(run) {
  const place = (name) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);
  const pictures = [...(run.pictures ?? [])].sort((a, b) => place(a) - place(b));
  return h(
    "section",
    { class: "panel" },
    h("h2", run.name),
    h("p", { class: "quiet prose" }, t("sweep.lead")),
    h(
      "div",
      { class: "pictures" },
      pictures.map((name) =>
        h(
          "figure",
          h("figcaption", questionOf(name)),
          h("img", {
            src: `/v1/runs/${encodeURIComponent(run.name)}/pictures/${encodeURIComponent(name)}`,
            alt: questionOf(name),
            loading: "lazy",
            width: 720,
            height: 430,
          }),
        ),
      ),
    ),
    run.report
      ? [
          h("h3", t("sweep.report")),
          h(
            "pre",
            { class: "all report", tabindex: 0, "aria-label": t("sweep.report") },
            run.report,
          ),
        ]
      : h("p", { class: "quiet" }, t("sweep.unfinished")),
  );
}
