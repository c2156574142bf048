// The state of the page is its address: #/place/rest?key=value. Pure: the router beside it listens.

/**
 * `#/inside?text=a&layer=2` → `{ place, rest, params }`; whatever is no address of ours is the
 * start.
 */
export function parse(hash, places) {
  const match = /^#\/([a-z]+)(?:\/([^?]*))?(?:\?(.*))?$/.exec(hash ?? "");
  if (!match || !places.includes(match[1])) return { place: places[0], rest: "", params: {} };
  const params = {};
  for (const [key, value] of new URLSearchParams(match[3] ?? "")) params[key] = value;
  let rest = match[2] ?? "";
  try {
    rest = decodeURIComponent(rest);
  } catch {
    rest = "";
  }
  return { place: match[1], rest, params };
}

/** The reverse. Empty values are left out. */
export function format({ place, rest = "", params = {} }) {
  const kept = Object.entries(params).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  const query = new URLSearchParams(kept).toString();
  return `#/${place}${rest ? "/" + encodeURIComponent(rest) : ""}${query ? "?" + query : ""}`;
}

/** A whole number of the address within bounds; `otherwise` where it is none. */
export function whole(value, least, most, otherwise) {
  const n = /^-?\d+$/.test(value ?? "") ? Number(value) : NaN;
  return n >= least && n <= most ? n : otherwise;
}

/** A number of the address within bounds. */
export function real(value, least, most, otherwise) {
  const n = value === undefined || value === null || value === "" ? NaN : Number(value);
  return n >= least && n <= most ? n : otherwise;
}
