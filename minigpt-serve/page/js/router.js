// Listens to the address and changes it.
import { parse, format } from "./address.js";

export const PLACES = ["chat", "inside", "training", "learn"];
let hear = () => {};
let current = parse(location.hash, PLACES);

export const here = () => current;

/** Calls back whenever the address changes, whoever changed it. */
export function start(callback) {
  hear = callback;
  addEventListener("hashchange", () => {
    current = parse(location.hash, PLACES);
    hear(current);
  });
  hear(current);
}

/** Goes elsewhere; `replace` leaves no step to go back to. */
export function go(at, { replace = false } = {}) {
  const next = format(at);
  if (next === location.hash) return;
  if (!replace) {
    location.hash = next;
    return;
  }
  history.replaceState(null, "", next);
  current = parse(next, PLACES);
  hear(current);
}

/** Changes some parameters of this place. */
export function change(params, options) {
  go(
    { place: current.place, rest: current.rest, params: { ...current.params, ...params } },
    options,
  );
}

export const link = (place, params = {}, rest = "") => format({ place, rest, params });
