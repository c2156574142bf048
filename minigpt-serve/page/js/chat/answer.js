// One answer from the server: the stream into a turn.
import { stream, json } from "../api.js";

/**
 * Fills `turn` as the answer comes; `changed` is called after each piece. Never throws: what went
 * wrong is in the turn.
 */
export async function answer({ model, turns, turn, settings, signal, changed }) {
  const messages = turns
    .slice(0, -1)
    .filter((past) => past.state === "done" || past.text)
    .flatMap((past) => [
      { role: "user", content: past.question },
      { role: "assistant", content: past.text },
    ]);
  // A model that knows single questions gets the question alone.
  const history = model.separator ? [] : messages;
  const started = performance.now();
  const asked = [...history, { role: "user", content: turn.question }];
  const body = {
    model: model.id,
    messages: asked,
    stream: true,
    logprobs: true,
    top_logprobs: 5,
    stream_options: { include_usage: true },
    max_completion_tokens: settings.max_tokens,
    // Settings that nobody changed are left to the server.
    temperature: settings.temperature,
    top_p: settings.top_p,
    top_k: settings.top_k,
    min_p: settings.min_p,
    seed: settings.seed ?? undefined,
  };
  const prompt = promptOf(model, asked);
  try {
    await stream("/v1/chat/completions", body, {
      signal,
      emit: (chunk) => {
        take(turn, chunk, started);
        changed();
      },
    });
    turn.state = turn.state === "writing" ? "done" : turn.state;
  } catch (error) {
    if (error.name === "AbortError") turn.state = "stopped";
    else {
      turn.state = "failed";
      turn.error = error;
    }
  }
  turn.seconds = (performance.now() - started) / 1000;
  turn.prompt = await prompt;
  changed();
}

/** The text that the model reads for a conversation, in its own format; undefined if the server does not say. */
const promptOf = (model, messages) =>
  json("/apply-template", { body: { model: model.id, messages }, quiet: true }).then(
    (answer) => answer.prompt,
    () => undefined,
  );

/** A chunk of OpenAI's stream into a turn. */
export function take(turn, chunk, started = 0) {
  if (chunk.usage) turn.usage = chunk.usage;
  const choice = chunk.choices?.[0];
  if (!choice) return;
  const piece = choice.delta?.content ?? "";
  if (piece && turn.first === undefined) turn.first = (performance.now() - started) / 1000;
  turn.text += piece;
  for (const token of choice.logprobs?.content ?? [])
    turn.tokens.push({
      token: token.token,
      bytes: token.bytes ? token.bytes.map((b) => b.toString(16).padStart(2, "0")).join("") : null,
      probability: Math.exp(token.logprob),
      surprisal: -token.logprob / Math.LN2,
      top: (token.top_logprobs ?? []).map((other) => ({
        token: other.token,
        bytes: other.bytes
          ? other.bytes.map((b) => b.toString(16).padStart(2, "0")).join("")
          : null,
        probability: Math.exp(other.logprob),
      })),
    });
  if (choice.finish_reason) turn.finish = choice.finish_reason;
}
