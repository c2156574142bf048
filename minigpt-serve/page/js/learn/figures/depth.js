// Figures of chapter 5: attribution, lens, a block switched off; all on the loaded model.
import { h } from "../../dom.js";
import { t } from "../../i18n.js";
import { inspect } from "../../api.js";
import { nameOf } from "../../tokens.js";
import { show } from "../../parts/message.js";
import { waterfall, isSum, notASum } from "../../inside/attribution.js";
import { lensTable } from "../../inside/lens.js";
import { compare } from "../../inside/ablation.js";
import { typed, read, note, example, choose } from "./part.js";

export function attribution(ctx) {
  if (!ctx.model) return note(t("figure.no_model"));
  if (!isSum(ctx.model)) return notASum();
  return typed({
    ctx,
    text: example(ctx),
    label: t("figure.type"),
    height: 420,
    make: async (text) => {
      const { ids } = await read(ctx, text);
      const found = await inspect(
        "attribution",
        { model: ctx.model.id, ids, at: ids.length - 1 },
        { signal: ctx.signal },
      );
      return [
        note(t("figure.attribution.token", { token: nameOf(found.attribution_of) })),
        waterfall(found, false),
      ];
    },
  });
}

export function lens(ctx) {
  if (!ctx.model) return note(t("figure.no_model"));
  return typed({
    ctx,
    text: example(ctx),
    label: t("figure.type"),
    height: 240,
    make: async (text) => {
      const reading = await read(ctx, text),
        box = h("div");
      const cells = (
        await inspect(
          "lens",
          { model: ctx.model.id, ids: reading.ids, top: 1 },
          { signal: ctx.signal },
        )
      ).lens;
      const draw = (at) =>
        box.replaceChildren(
          lensTable({ cells, reading, at, layer: null, change: ({ at: to }) => draw(to) }),
        );
      draw(reading.ids.length - 1);
      return box;
    },
  });
}

export function without(ctx) {
  if (!ctx.model) return note(t("figure.no_model"));
  let layer = 0;
  return typed({
    ctx,
    text: example(ctx),
    label: t("figure.type"),
    height: 420,
    make: async (text) => {
      const reading = await read(ctx, text),
        out = h("div");
      const draw = () =>
        show(
          out,
          async () =>
            compare(
              await inspect(
                "ablate",
                {
                  model: ctx.model.id,
                  ids: reading.ids,
                  off: [`layer.${layer}`],
                  mean: false,
                  top: 5,
                  continuation: 10,
                },
                { signal: ctx.signal },
              ),
              reading,
              ctx.model,
            ),
          { signal: ctx.signal, height: 380 },
        );
      draw();
      return [
        choose(
          t("figure.without.block"),
          ctx.model.config.n_layer,
          (l) => t("layer.short", { layer: l }),
          (l) => {
            layer = l;
            draw();
          },
        ),
        out,
      ];
    },
  });
}
