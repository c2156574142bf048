// Records of runs as the curves of a chart. Pure.

/** What may stand below a curve. */
export const xKinds = ['step', 'tokens', 'seconds'];

const COLOURS = ['var(--blue)', 'var(--orange)', '#3c8d6e', '#a0559b', '#8a6d1f', '#4b5563'];
export const colourOf = index => COLOURS[index % COLOURS.length];

/** Training loss as a line, validation as a dashed one, of every run. */
export function seriesOf(runs, x) {
  return runs.flatMap((run, i) => [
    { name: run.name, colour: colourOf(i), points: points(run.records, x, r => r.loss) },
    { name: `${run.name} val`, colour: colourOf(i), dashed: true, dots: true, points: points(run.records, x, r => r.val_loss) },
  ]).filter(series => series.points.length);
}

export const rateSeries = (runs, x) => runs.map((run, i) => ({ name: run.name, colour: colourOf(i), points: points(run.records, x, r => r.lr) }));

/** Gradient norms: of the whole, and by layer where one run is shown. */
export function normSeries(runs, x) {
  const whole = runs.map((run, i) => ({ name: run.name, colour: colourOf(i), width: 2.2, points: points(run.records, x, r => r.grad_norm) }));
  if (runs.length !== 1) return whole;
  const parts = [...new Set(runs[0].records.flatMap(r => Object.keys(r.grad_norms ?? {})))].slice(0, 14);
  return [...whole, ...parts.map((part, i) => ({ name: part, colour: shade(i, parts.length), width: 1, points: points(runs[0].records, x, r => r.grad_norms?.[part]) }))];
}
const shade = (i, n) => `hsl(${25 + Math.round((190 * i) / Math.max(1, n - 1))} 55% 50%)`;

const points = (records, x, y) => records.filter(r => y(r) !== undefined && y(r) !== null && r[x] !== undefined).map(r => [r[x], y(r)]);

/** New records and samples after those that are there. A run that was taken back (resumed earlier) loses what will come again. */
export function merge(run, { records = [], samples = [], snapshots, anew = false }) {
  if (anew) return { ...run, records, samples };
  const after = (old, more) => (more.length ? [...old.filter(one => one.step < more[0].step), ...more] : old);
  return { ...run, records: after(run.records, records), samples: after(run.samples ?? [], samples), snapshots: snapshots ?? run.snapshots };
}
