// Records of runs as the curves of a chart. Pure.

/** What may stand below a curve. */
export const xKinds = ["step", "tokens", "seconds"];

const COLOURS = ["var(--blue)", "var(--orange)", "#3c8d6e", "#a0559b", "#8a6d1f", "#4b5563"];
export const colourOf = (index) => COLOURS[index % COLOURS.length];

/** Training loss as a line, validation as a dashed one, of every run. */
export function seriesOf(runs, x, validation = (name) => `${name} val`) {
  return runs
    .flatMap((run, i) => [
      { name: run.name, colour: colourOf(i), points: points(run.records, x, (r) => r.loss) },
      {
        name: validation(run.name),
        colour: colourOf(i),
        dashed: true,
        dots: true,
        points: points(run.records, x, (r) => r.val_loss),
      },
    ])
    .filter((series) => series.points.length);
}

export const rateSeries = (runs, x) =>
  runs.map((run, i) => ({
    name: run.name,
    colour: colourOf(i),
    points: points(run.records, x, (r) => r.lr),
  }));

/** Gradient norms: of the whole, and by layer where one run is shown. */
export function normSeries(runs, x) {
  const whole = runs.map((run, i) => ({
    name: run.name,
    colour: colourOf(i),
    width: 2.2,
    points: points(run.records, x, (r) => r.grad_norm),
  }));
  if (runs.length !== 1) return whole;
  const parts = [...new Set(runs[0].records.flatMap((r) => Object.keys(r.grad_norms ?? {})))].slice(
      0,
      14,
    ),
    blocks = parts.filter((part) => /^h\.\d+$/.test(part));
  return [
    ...whole,
    ...parts.map((part) => ({
      name: part,
      colour: OTHERS[part] ?? shade(Math.max(0, blocks.indexOf(part)), blocks.length),
      width: 1.2,
      points: points(runs[0].records, x, (r) => r.grad_norms?.[part]),
    })),
  ];
}
/** Blocks from light to dark by depth, the rest in colours of their own. */
const shade = (i, n) =>
  `hsl(${34 - Math.round((16 * i) / Math.max(1, n - 1))} 80% ${64 - Math.round((24 * i) / Math.max(1, n - 1))}%)`;
const OTHERS = { wte: "#1d9a83", wpe: "#9a68c4", ln_f: "#7d8794" };

/** The largest value of a `[train]` setting among runs; 0 where none has it. */
export const planned = (runs, setting) =>
  Math.max(0, ...runs.map((run) => Number(run.config?.train?.[setting]) || 0));

const points = (records, x, y) =>
  records
    .filter((r) => y(r) !== undefined && y(r) !== null && r[x] !== undefined)
    .map((r) => [r[x], y(r)]);

/**
 * New records and samples after those that are there. A run that was taken back (resumed earlier)
 * loses what will come again.
 */
export function merge(run, { records = [], samples = [], snapshots, anew = false }) {
  if (anew) return { ...run, records, samples };
  const after = (old, more) =>
    more.length ? [...old.filter((one) => one.step < more[0].step), ...more] : old;
  return {
    ...run,
    records: after(run.records, records),
    samples: after(run.samples ?? [], samples),
    snapshots: snapshots ?? run.snapshots,
  };
}

/**
 * The first step at which each role is there, as marks of a chart. `of` is the run's name where
 * several are shown.
 */
export const roleMarks = (first, { of, say }) =>
  [...first].map(([role, { step, layer, head }], row) => ({
    x: step,
    row,
    label: `${of ? `${of} · ` : ""}${say(role)} ${layer}.${head}`,
  }));
