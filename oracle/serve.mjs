// OpenAI's client for Node, on a server of ours: node serve.mjs FOLDER-WITH-NODE_MODULES ADDRESS
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [, , place, address] = process.argv;
const { OpenAI, NotFoundError, BadRequestError } = createRequire(`${place}/`)("openai");
const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: "any", maxRetries: 0 });
const messages = [{ role: "user", content: "What does the cat say?" }];
const want = "The cat says meow.";

const models = await client.models.list();
assert.deepEqual(models.data.map((model) => model.id), ["animals"]);

const whole = await client.chat.completions.create({ model: "animals", messages, temperature: 0 });
assert.equal(whole.choices[0].message.content, want);
assert.equal(whole.choices[0].finish_reason, "stop");

let said = "";
let usage = null;
const options = { stream: true, stream_options: { include_usage: true } };
for await (const chunk of await client.chat.completions.create({ model: "animals", messages, temperature: 0, ...options })) {
  said += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}
assert.equal(said, want);
assert.equal(usage.completion_tokens, whole.usage.completion_tokens);

// Its helper puts a stream together again.
const helper = client.chat.completions.stream({ model: "animals", messages, temperature: 0 });
assert.equal(await helper.finalContent(), want);

// A stream that is left is no error, and the server goes on.
const left = await client.chat.completions.create({ model: "animals", messages, temperature: 0, stream: true });
for await (const chunk of left) {
  if (chunk.choices[0]?.delta?.content) break;
}

const text = await client.completions.create({ model: "animals", prompt: "What does the cat say?<sep>", temperature: 0, max_tokens: 40, logprobs: 1 });
assert.equal(text.choices[0].text, want);
// The lists have the token that ended the text, too, as OpenAI's have.
assert.equal(text.choices[0].logprobs.tokens.join(""), `${want}<sep>`);

await assert.rejects(client.models.retrieve("gpt-4"), (error) => error instanceof NotFoundError && error.code === "model_not_found");
const long = [{ role: "user", content: "long ".repeat(999) }];
await assert.rejects(client.chat.completions.create({ model: "animals", messages: long }), (error) => error instanceof BadRequestError && error.code === "context_length_exceeded");
