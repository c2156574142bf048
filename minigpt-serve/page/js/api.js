// The server: JSON and bytes, with errors that say what to do; a key is asked for where the server
// wants one.
import { gap, t, lang } from "./i18n.js";
import { said } from "./messages.js";
import { listen, readEvents } from "./events.js";

let key = null;
try {
  key = sessionStorage.getItem("minigpt.key");
} catch {
  /* asked again, then */
}
let askForKey = async () => null;
let running = 0;

export function onKeyWanted(ask) {
  askForKey = ask;
}
let away = () => {};
export function onAway(hear) {
  away = hear;
}

/** A request that failed: `message` for people, `status` (0 where nobody answered), `code`. */
export class ApiError extends Error {
  constructor(message, status, code) {
    super(message);
    this.status = status;
    this.code = code;
    this.fatal = status >= 400 && status < 500;
  }
}

function busy(change) {
  running += change;
  const line = document.getElementById("loading");
  if (line) line.hidden = running === 0;
}

/** Asks for a key, once for all requests that want one at the same time. */
let asking = null;
function newKey() {
  return (asking ??= askForKey(key !== null).then((given) => {
    asking = null;
    if (!given) return false;
    key = given;
    try {
      sessionStorage.setItem("minigpt.key", key);
    } catch {
      /* for this page only */
    }
    return true;
  }));
}

export async function request(path, { body, signal, method, quiet = false } = {}) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key) headers.Authorization = `Bearer ${key}`;
  if (!quiet) busy(1);
  try {
    const response = await fetch(path, {
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
    });
    if (response.status === 401 && (await newKey()))
      return request(path, { body, signal, method, quiet });
    if (!response.ok) throw await problem(response);
    return response;
  } catch (error) {
    if (error instanceof ApiError || error.name === "AbortError") throw error;
    away();
    throw new ApiError(t("error.away"), 0, "away");
  } finally {
    if (!quiet) busy(-1);
  }
}

async function problem(response) {
  try {
    const { error } = await response.json();
    return new ApiError(said(error.message, lang()), response.status, error.code);
  } catch {
    const { status } = response;
    const reason = STATUSES.includes(status) ? t(`error.status.${status}`) : "";
    return new ApiError(`${t("error.status", { status })}${gap()}${reason}`.trim(), status);
  }
}
/** Statuses whose reason is known where no JSON says it, as from a proxy in between. */
const STATUSES = [403, 404, 413, 429, 502, 503, 504];

/** The body of an answer; what breaks on the way is told as that, not as the parser's complaint. */
async function body(response, read) {
  try {
    return await read(response);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const cut = !(error instanceof SyntaxError);
    if (cut) away();
    throw new ApiError(t(cut ? "error.cut" : "error.broken"), 0, cut ? "away" : "broken");
  }
}
export const json = async (path, options) =>
  body(await request(path, options), (response) => response.json());
export const bytes = async (path, options) =>
  body(await request(path, options), (response) => response.arrayBuffer());

/**
 * A question to the model, remembered: asking the same again costs nothing. The latest answers are
 * kept, up to a size.
 */
const MOST_BYTES = 48e6,
  GUESS = 20_000;
const answers = new Map(),
  sizes = new Map();
function keepLatest() {
  let bytes = 0;
  for (const name of [...answers.keys()].reverse()) {
    bytes += sizes.get(name) ?? GUESS;
    if (bytes > MOST_BYTES) {
      answers.delete(name);
      sizes.delete(name);
    }
  }
}
export function inspect(what, body, { signal, binary = false } = {}) {
  const name = `${what} ${JSON.stringify(body)}`;
  if (answers.has(name)) {
    const kept = answers.get(name);
    answers.delete(name);
    answers.set(name, kept);
    return kept;
  }
  const answer = (binary ? bytes : json)(`/v1/inspect/${what}`, { body });
  answers.set(name, answer);
  answer.then(
    (got) => {
      sizes.set(name, got.byteLength ?? GUESS);
      keepLatest();
    },
    () => answers.delete(name),
  );
  return signal ? abortable(answer, signal) : answer;
}

/**
 * A promise that is given up when somebody no longer wants it; the question itself goes on, and is
 * remembered.
 */
function abortable(promise, signal) {
  return new Promise((done, fail) => {
    if (signal.aborted) {
      fail(new DOMException("", "AbortError"));
      return;
    }
    signal.addEventListener("abort", () => fail(new DOMException("", "AbortError")), {
      once: true,
    });
    promise.then(done, fail);
  });
}

export const forget = () => {
  answers.clear();
  sizes.clear();
};

/**
 * Posts a request and reads the events of its answer; `emit` gets parsed JSON until `[DONE]`. A stream
 * that ends earlier was cut, and is an error.
 */
export async function stream(path, body, { signal, emit }) {
  const response = await request(path, { body, signal });
  let whole = false;
  const event = ({ data }) => {
    if (data === "[DONE]") {
      whole = true;
      return;
    }
    const value = JSON.parse(data);
    if (value.error) throw new ApiError(said(value.error.message, lang()), 500, value.error.code);
    emit(value);
  };
  try {
    await readEvents(response, event);
  } catch (error) {
    if (error instanceof ApiError || error.name === "AbortError") throw error;
    away();
    throw new ApiError(t("error.cut"), 0, "away");
  }
  if (!whole) throw new ApiError(t("error.cut"), 0, "cut");
}

/** Follows an event stream over losses of the server. */
export const follow = (path, { signal, emit, state }) =>
  listen({
    signal,
    state,
    emit: (event) => emit(JSON.parse(event.data)),
    open: () => request(path, { signal, quiet: true }),
  });
