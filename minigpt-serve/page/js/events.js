// Server-sent events over fetch, which, unlike EventSource, can carry a key and a body, and be
// cancelled.

/**
 * A parser of an event stream: feed it text, it calls back with `{ event, data, id }`. Lines end
 * with \n, \r\n or \r.
 */
export function parser(emit) {
  let rest = "",
    event = "",
    data = [],
    id,
    first = true;
  return (text) => {
    rest += text;
    if (first && rest.length) {
      if (rest[0] === "\ufeff") rest = rest.slice(1);
      first = false;
    }
    // A \r at the very end may be half of \r\n.
    const held = rest.endsWith("\r") ? 1 : 0;
    const lines = rest.slice(0, rest.length - held).split(/\r\n|\n|\r/);
    rest = lines.pop() + (held ? "\r" : "");
    for (const line of lines) {
      if (line === "") {
        if (data.length) emit({ event: event || "message", data: data.join("\n"), id });
        event = "";
        data = [];
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue;
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
      if (field === "event") event = value;
      else if (field === "data") data.push(value);
      else if (field === "id") id = value;
    }
  };
}

/** Reads a response's events until it ends. */
export async function readEvents(response, emit) {
  const feed = parser(emit),
    decoder = new TextDecoder(),
    reader = response.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      feed(decoder.decode(value, { stream: true }));
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** How long to wait before another try: 0.5 s doubling to 8 s. */
export const pause = (tries) => Math.min(8000, 500 * 2 ** Math.min(tries, 10));

/**
 * Listens for as long as `signal` lets it: `open()` gives a response, `emit` gets events, `state`
 * hears 'open' and 'lost'.
 */
export async function listen({ open, emit, state, signal, wait = sleep }) {
  for (let tries = 0; !signal.aborted; tries++) {
    try {
      const response = await open();
      state("open");
      tries = 0;
      await readEvents(response, emit);
    } catch (error) {
      if (signal.aborted) return;
      if (error.fatal) throw error;
    }
    if (signal.aborted) return;
    state("lost");
    await wait(pause(tries), signal);
  }
}

export const sleep = (ms, signal) =>
  new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        done();
      },
      { once: true },
    );
  });
