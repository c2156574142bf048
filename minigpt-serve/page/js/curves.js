// The arithmetic of curves: smoothing, ticks, thinning, the nearest point.

/**
 * An exponential moving average with its start corrected, as TensorBoard's: `weight` 0 is the raw
 * line. Points that are no  numbers stay what they are.
 */
export function smooth(points, weight) {
  if (weight <= 0) return points;
  let last = 0,
    count = 0;
  return points.map(([x, y]) => {
    if (!Number.isFinite(y)) return [x, y];
    last = last * weight + (1 - weight) * y;
    count += 1;
    return [x, last / (1 - weight ** count)];
  });
}

/** Round numbers that divide a range into about `count` parts. */
export function ticks(low, high, count = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count,
    power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.7);
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++)
    out.push(Number((i * step).toPrecision(12)));
  return out;
}

/** Round numbers on a log axis: powers of ten, with 2 and 5 where there are few. */
export function logTicks(low, high) {
  if (!(low > 0) || !(high > low)) return [low];
  const decades = Math.log10(high / low);
  const per = decades > 4 ? [1] : decades > 1.2 ? [1, 3] : [1, 2, 3, 5, 7];
  const out = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
    for (const m of per) {
      const x = Number((m * 10 ** e).toPrecision(12));
      if (x >= low * 0.9999 && x <= high * 1.0001) out.push(x);
    }
  return out.length > 1 ? out : ticks(low, high);
}

/** At most 4 points a bucket (first, least, greatest, last), so that peaks stay. */
export function thin(points, buckets) {
  if (points.length <= 4 * buckets) return points;
  const out = [],
    per = points.length / buckets;
  for (let b = 0; b < buckets; b++) {
    const from = Math.floor(b * per),
      to = Math.floor((b + 1) * per);
    let least = from,
      greatest = from;
    for (let i = from; i < to; i++) {
      if (points[i][1] < points[least][1]) least = i;
      if (points[i][1] > points[greatest][1]) greatest = i;
    }
    for (const i of [...new Set([from, least, greatest, to - 1])].sort((a, b2) => a - b2))
      out.push(points[i]);
  }
  return out;
}

/** The index of the point nearest to x; -1 of none. Points are in order of x. */
export function nearest(points, x) {
  let low = 0,
    high = points.length - 1;
  if (high < 0) return -1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < x) low = middle;
    else high = middle;
  }
  return Math.abs(points[low][0] - x) <= Math.abs(points[high][0] - x) ? low : high;
}

/** The leaves of a configuration as `a.b.c` → value, and those in which several differ. */
export function flatten(value, prefix = "") {
  if (value === null || typeof value !== "object" || Array.isArray(value))
    return { [prefix]: value };
  return Object.assign(
    {},
    ...Object.entries(value).map(([key, inner]) =>
      flatten(inner, prefix ? `${prefix}.${key}` : key),
    ),
  );
}
export function differing(configs) {
  const flat = configs.map((config) => flatten(config ?? {}));
  const keys = [...new Set(flat.flatMap(Object.keys))].sort();
  return keys.filter((key) => new Set(flat.map((f) => JSON.stringify(f[key]))).size > 1);
}
