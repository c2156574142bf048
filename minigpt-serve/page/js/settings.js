// How tokens are chosen: the sliders' values, as an address has them, and what they leave. Pure.
import { real, whole } from "./address.js";
import { t } from "./i18n.js";
import { percent } from "./numbers.js";

/** The distribution as the model gives it. */
export const PLAIN = { temperature: 1, top_k: 0, top_p: 1, min_p: 0 };
const NAMES = { temperature: "t", top_k: "k", top_p: "p", min_p: "m" };

/** The sliders' values from an address, which names those that differ from the defaults. */
export const settingsOf = (params, defaults = PLAIN) => ({
  temperature: real(params.t, 0, 3, defaults.temperature),
  top_k: whole(params.k, 0, 100, defaults.top_k),
  top_p: real(params.p, 0.01, 1, defaults.top_p),
  min_p: real(params.m, 0, 1, defaults.min_p),
});

/** Settings as an address has them. */
export const paramsOf = (settings, defaults = PLAIN) =>
  Object.fromEntries(
    Object.entries(NAMES).map(([key, name]) => [
      name,
      settings[key] === defaults[key] ? null : settings[key],
    ]),
  );

/** What the settings leave of all tokens, in words. */
export function remaining({ kept, all, mass, greedy }) {
  if (greedy) return t("next.greedy", { all, mass: percent(mass) });
  if (kept === all) return t("next.all", { all });
  // Where next to nothing was removed there is nothing to rescale.
  if (percent(mass) === "100 %") return t("next.most", { kept, all });
  return t("next.kept", { kept, all, mass: percent(mass) });
}
