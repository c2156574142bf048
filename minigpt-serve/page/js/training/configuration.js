// The settings of the selected runs; what differs first.
import { h } from "../dom.js";
import { t } from "../i18n.js";
import { flatten, differing } from "../curves.js";

export function configuration(runs) {
  const flat = runs.map((run) => flatten(run.config ?? {})),
    differ = new Set(runs.length > 1 ? differing(runs.map((run) => run.config)) : []);
  const keys = [...new Set(flat.flatMap(Object.keys))];
  const text = (value) =>
    value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value);
  const table = (some) =>
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        { class: "plain" },
        h(
          "thead",
          h(
            "tr",
            h("th", { scope: "col" }, t("config.setting")),
            runs.map((run) => h("th", { scope: "col" }, run.name)),
          ),
        ),
        h(
          "tbody",
          some.map((key) =>
            h(
              "tr",
              { class: differ.has(key) ? "differs" : null },
              h("th", { scope: "row", class: "mono" }, key),
              flat.map((f) => h("td", { class: "mono" }, text(f[key]))),
            ),
          ),
        ),
      ),
    );
  return [
    differ.size > 0 && [h("h3", t("config.differs")), table([...differ])],
    h("details", h("summary", t("config.all")), table(keys)),
  ];
}
