// Training: runs as they grow, compared in one chart; the samples as they came; snapshots to look
// back on. It reads, and starts nothing.
import { h, fill } from "../dom.js";
import { t } from "../i18n.js";
import { json, follow } from "../api.js";
import { real } from "../address.js";
import { link } from "../router.js";
import { number, short, duration } from "../numbers.js";
import { chart, sparkline } from "../parts/chart.js";
import { slider } from "../parts/slider.js";
import { empty, failure } from "../parts/message.js";
import { nearest } from "../curves.js";
import { seriesOf, rateSeries, normSeries, xKinds, colourOf, merge, planned } from "./series.js";
import { configuration } from "./configuration.js";
import { snapshots } from "./snapshots.js";
import { sweep } from "./sweep.js";
import { visible } from "../tokens.js";

export function mount(root, ctx) {
  const list = h("ul", { class: "runs", "aria-label": t("training.runs") }),
    status = h("span", { class: "small quiet", role: "status" }),
    body = h("div", { class: "run-body" });
  root.append(
    h(
      "div",
      { class: "row spread" },
      h("h1", t("training.title")),
      h("a", { class: "small", href: link("learn", {}, "6") }, t("chapter.link", { n: 6 })),
    ),
    h("p", { class: "prose quiet" }, t("training.lead")),
    h(
      "div",
      { class: "training" },
      h(
        "div",
        h(
          "div",
          { class: "row spread" },
          h("h2", { class: "small-title" }, t("training.runs")),
          status,
        ),
        list,
      ),
      body,
    ),
  );
  let runs = null,
    watch = null,
    drawn = null,
    marks = [];
  const data = new Map();

  const selected = () => {
    const named = (ctx.params.runs ?? "")
      .split(",")
      .filter((name) => runs?.some((run) => run.name === name));
    return named.length
      ? named
      : runs?.length
        ? [(runs.find((run) => run.running) ?? runs[0]).name]
        : [];
  };

  function drawList() {
    if (!runs.length) {
      fill(list);
      fill(
        body,
        empty(
          ctx.features.runs
            ? t("training.empty", { folder: ctx.features.runs })
            : t("training.no_folder"),
          ctx.features.runs ? "minigpt train DATA --out RUNS/NAME" : "minigpt serve --runs DIR",
        ),
      );
      drawn = null;
      return;
    }
    const on = selected();
    fill(
      list,
      runs.map((run) =>
        h(
          "li",
          { class: on.includes(run.name) ? "on" : null },
          h(
            "label",
            { class: "run" },
            h("input", {
              type: "checkbox",
              checked: on.includes(run.name),
              onchange: (event) => {
                const next = event.target.checked
                  ? [...on, run.name]
                  : on.filter((name) => name !== run.name);
                ctx.change({ runs: next.join(","), snap: null });
              },
            }),
            h(
              "span",
              { class: "run-name" },
              h("strong", run.name),
              run.running && h("span", { class: "live" }, t("training.live")),
            ),
            run.kind !== "sweep" &&
              sparkline(run.spark, {
                colour: on.includes(run.name) ? colourOf(on.indexOf(run.name)) : "var(--ink-3)",
              }),
            h(
              "span",
              { class: "small quiet num" },
              run.kind === "sweep"
                ? t("training.sweep")
                : `${short(run.step)} ${t("unit.steps")} · ${number(run.val_loss ?? run.loss, 3)}`,
            ),
          ),
        ),
      ),
    );
  }

  async function load(name) {
    if (data.has(name)) return;
    data.set(name, null);
    try {
      data.set(name, await json(`/v1/runs/${encodeURIComponent(name)}`));
    } catch (error) {
      data.delete(name);
      if (error.name !== "AbortError")
        fill(
          body,
          failure(error, () => refresh()),
        );
    }
  }

  async function refresh() {
    if (!runs) return;
    drawList();
    if (!runs.length) return;
    const on = selected();
    ctx.titled(on);
    await Promise.all(on.map(load));
    if (ctx.signal.aborted) return;
    follow_(on);
    draw();
  }

  /** Follows the list, and the records of the selected runs. */
  function follow_(on) {
    const wanted = on.join(",");
    if (watch?.wanted === wanted) return;
    watch?.stop.abort();
    watch = { wanted, stop: new AbortController() };
    const { stop } = watch;
    ctx.signal.addEventListener("abort", () => stop.abort(), { once: true });
    const from = on.map((name) => data.get(name)?.records.at(-1)?.step ?? 0);
    const path = `/v1/runs/events?${new URLSearchParams({ watch: on.join(","), from: from.join(",") })}`;
    follow(path, {
      signal: stop.signal,
      state: (now) => {
        status.textContent = now === "open" ? t("training.watching") : t("training.lost");
      },
      emit: (news) => {
        if (news.kind === "runs") {
          const known = runs?.length;
          runs = news.runs;
          if (known === 0 || !drawn) refresh();
          else {
            drawList();
            noteSnapshots(news.runs);
          }
        }
        if (news.kind === "records" && data.get(news.run)) {
          data.set(news.run, merge(data.get(news.run), news));
          drawn?.grow();
        }
      },
    }).catch((error) => {
      if (!stop.signal.aborted) status.textContent = error.message;
    });
  }
  function noteSnapshots(now) {
    for (const run of now) {
      const mine = data.get(run.name);
      if (mine && run.snapshots?.length > (mine.snapshots?.length ?? 0)) {
        mine.snapshots = run.snapshots;
        drawn?.snapshots?.();
      }
    }
  }

  function draw() {
    const on = selected(),
      params = ctx.params,
      loaded = on.map((name) => ({ name, ...data.get(name) })).filter((run) => run.records);
    const key = JSON.stringify([on, params.x, params.log, params.smooth]);
    if (drawn?.key === key) {
      drawn.snapshots();
      return;
    }
    const sweeps = loaded.filter((run) => run.kind === "sweep"),
      plain = loaded.filter((run) => run.kind !== "sweep");
    const x = xKinds.includes(params.x) ? params.x : "step",
      smoothing = real(params.smooth, 0, 0.99, 0),
      log = params.log ? params.log === "1" : overDecades(plain);
    const fresh = () =>
      selected()
        .map((name) => ({ name, ...data.get(name) }))
        .filter((run) => run.records && run.kind !== "sweep");
    const sample = h("div", { class: "sample", "aria-live": "off" });
    const showSample = (at) => {
      const found = fresh().flatMap((run, i) => {
        const all = run.samples ?? [];
        if (!all.length) return [];
        const points = all.map((s) => [s.step, 0]);
        return [
          {
            run,
            i,
            sample:
              at === null ? all.at(-1) : all[Math.max(0, nearest(points, stepAt(run, x, at)))],
          },
        ];
      });
      fill(
        sample,
        found.length
          ? [
              h("h3", t("training.sample")),
              found.map(({ run, i, sample: s }) =>
                h(
                  "blockquote",
                  { style: { "border-color": colourOf(i) } },
                  h("small", { class: "quiet" }, `${run.name} · ${t("step.at", { n: s.step })}`),
                  h("p", { class: "mono", dir: "auto" }, visibleLines(s.text)),
                ),
              ),
            ]
          : h("p", { class: "quiet small" }, noSamples()),
      );
    };
    const noSamples = () => {
      const n = planned(fresh(), "sample_interval");
      return n > 0 ? t("training.samples_every", { n }) : t("training.no_samples");
    };
    const options = { x, smoothing, log };
    const main = chart({
      ...chartOf(plain, options),
      height: 340,
      label: t("training.chart"),
      onread: showSample,
    });
    const rate = chart({
      series: rateSeries(plain, x),
      height: 150,
      xLabel: t(`axis.${x}`),
      xKind: kind(x),
      label: t("training.rate"),
      yLabel: t("training.rate"),
    });
    const norms = chart({
      series: normSeries(plain, x),
      height: 170,
      log: true,
      xLabel: t(`axis.${x}`),
      xKind: kind(x),
      label: t("training.norms"),
      yLabel: t("training.norms"),
    });
    const controls = h(
      "div",
      { class: "row controls" },
      h(
        "label",
        { class: "row" },
        t("training.below"),
        h(
          "select",
          {
            onchange: (event) =>
              ctx.change(
                { x: event.target.value === "step" ? null : event.target.value },
                { replace: true },
              ),
          },
          xKinds.map((k) => h("option", { value: k, selected: k === x }, t(`axis.${k}`))),
        ),
      ),
      h(
        "label",
        { class: "check" },
        h("input", {
          type: "checkbox",
          checked: log,
          onchange: (event) =>
            ctx.change({ log: event.target.checked ? "1" : "0" }, { replace: true }),
        }),
        t("training.log"),
      ),
      slider({
        label: t("training.smooth"),
        value: smoothing,
        least: 0,
        most: 0.99,
        step: 0.01,
        format: (v) => v.toFixed(2),
        oninput: (v) => main.update(chartOf(fresh(), { ...options, smoothing: v })),
        onchange: (v) => ctx.change({ smooth: v || null }, { replace: true }),
      }),
      h(
        "button",
        {
          type: "button",
          onclick: () => {
            main.zoomOut();
            rate.zoomOut();
            norms.zoomOut();
          },
        },
        t("training.whole"),
      ),
    );
    const facts = h("p", { class: "num small" }),
      back = h("div");
    const sayFacts = () =>
      fill(
        facts,
        fresh().map((run) => {
          const r = run.records.at(-1);
          return r
            ? h(
                "span",
                { class: "fact" },
                `${run.name}: ${t("training.facts", { step: short(r.step), tokens: short(r.tokens ?? 0), seconds: duration(r.seconds), rate: short(r.tokens_per_second ?? 0) })}`,
              )
            : null;
        }),
      );
    fill(
      body,
      sweeps.map(sweep),
      plain.length
        ? [
            h(
              "section",
              { class: "panel" },
              h("h2", t("training.curves")),
              controls,
              main,
              h("p", { class: "small quiet" }, t("training.hint")),
              facts,
              sample,
            ),
            h("section", { class: "panel" }, h("h2", t("training.more")), rate, norms),
            h("section", { class: "panel" }, h("h2", t("training.snapshots")), back),
            h("section", { class: "panel" }, h("h2", t("training.config")), configuration(plain)),
          ]
        : null,
    );
    sayFacts();
    showSample(null);
    const snap = snapshots(
      back,
      () => ctx,
      fresh,
      (found) => {
        marks = found;
        grow();
      },
    );
    function grow() {
      const now = fresh();
      main.update(chartOf(now, options));
      rate.update({ series: rateSeries(now, x) });
      norms.update({ series: normSeries(now, x) });
      sayFacts();
    }
    function chartOf(some, o) {
      return {
        series: seriesOf(some, o.x, (run) => t("training.val_of", { run })),
        smoothing: o.smoothing,
        log: o.log,
        xLabel: t(`axis.${o.x}`),
        xKind: kind(o.x),
        yLabel: t("training.loss"),
        marks: o.x === "step" ? marks : [],
      };
    }
    drawn = { key, grow, snapshots: () => snap.update() };
  }

  async function begin() {
    try {
      runs = (await json("/v1/runs")).runs;
    } catch (error) {
      if (error.name !== "AbortError" && error.status !== 0) fill(body, failure(error, begin));
      return;
    }
    if (!runs.length && ctx.features.runs) follow_([]);
    refresh();
  }
  begin();
  return {
    update: (next) => {
      ctx = next;
      refresh();
    },
    unmount: () => watch?.stop.abort(),
  };
}

/** Whether the losses span so much that a plain axis would show only their beginning. */
function overDecades(runs) {
  const all = runs.flatMap((run) => run.records.map((r) => r.loss)).filter((x) => x > 0);
  return (
    all.length > 1 &&
    all.reduce((a, b) => Math.max(a, b)) > 50 * all.reduce((a, b) => Math.min(a, b))
  );
}
const kind = (x) => (x === "seconds" ? "time" : "number");
const visibleLines = (text) =>
  text
    .split("\n")
    .map((line) => visible(line).replaceAll("␣", " "))
    .join("\n");
function stepAt(run, x, at) {
  const points = run.records.map((r) => [r[x] ?? r.step, r.step]);
  const i = nearest(points, at);
  return i < 0 ? 0 : points[i][1];
}
