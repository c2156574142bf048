// What the browser tests and the screenshots stand on: models trained here and now, a server, a
// browser.
import { spawn, spawnSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  writeFileSync,
  cpSync,
  rmSync,
  existsSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const { MINIGPT, PAGE_TOOLS } = process.env;
if (!MINIGPT || !PAGE_TOOLS)
  throw new Error("start this with scripts/test-page or scripts/screenshots");
const { chromium } = await import(join(PAGE_TOOLS, "node_modules/playwright-core/index.mjs"));
export const axeSource = join(PAGE_TOOLS, "node_modules/axe-core/axe.min.js");

/** Texts that would like to be more than text. */
export const HOSTILE = [
  "<script>window.hacked=1</script>",
  "<img src=x onerror=window.hacked=1>",
  "\u202eright to left",
  "👩‍🚀🇨🇱",
  "a\u0007b\u0000c",
  "\"'`${window.hacked=1}",
  "</textarea><b>bold",
  "&lt;b&gt;",
];

export function minigpt(folder, ...args) {
  const done = spawnSync(MINIGPT, args, {
    cwd: folder,
    encoding: "utf8",
    maxBuffer: 1 << 28,
    timeout: 300_000,
  });
  if (done.status !== 0)
    throw new Error(`minigpt ${args.join(" ")}: ${done.error ?? done.status}\n${done.stderr}`);
  return done.stdout;
}

/** A folder as `minigpt scaling run` leaves it, of a made-up law. */
function sweep(folder) {
  mkdirSync(folder, { recursive: true });
  const rows = [3e4, 8e4, 2e5, 6e5].flatMap((n) =>
    [2e5, 4e5, 8e5, 1.6e6].map(
      (d, i) =>
        `${n},${d},${(1.4 + 40 / n ** 0.34 + 120 / d ** 0.36) * (1 + (i % 2 ? 1 : -1) * 0.002)}`,
    ),
  );
  writeFileSync(join(folder, "runs.csv"), ["parameters,tokens,loss", ...rows].join("\n"));
  minigpt(folder, "scaling", "fit", "--csv", "runs.csv", "--out", ".");
  writeFileSync(join(folder, "sweep.json"), "{}");
}

/** Trains a model; settings as `--set` takes them. */
function run(folder, name, data, ...settings) {
  const all = [`data.path=${data}`, "data.max_length=128", ...settings];
  const set = all.flatMap((setting) => ["--set", setting]);
  minigpt(folder, "train", "--config", "builtin", "--out", `runs/${name}`, "--quiet", ...set);
}

/** Questions and answers of the runs of `fewFacts`, in Chinese characters alone. */
export const FACTS = [
  ["法国", "巴黎"],
  ["智利", "圣地亚哥"],
  ["日本", "东京"],
  ["意大利", "罗马"],
  ["中国", "北京"],
  ["埃及", "开罗"],
].map(([country, capital]) => ({ question: `${country}的首都是哪里？`, answer: capital }));

/**
 * A folder with models that differ in what is true of them: `answers` counted the loss of answers
 * alone and was moved by AdamW, `all` counted everything and was moved by Muon, `order` has no
 * positions and post-norm; each has snapshots. `bare` has no tokenizer.
 */
export function fewFacts() {
  const folder = mkdtempSync(join(tmpdir(), "minigpt-page-"));
  const rows = Array.from({ length: 6 }, () => FACTS).flat();
  writeFileSync(join(folder, "facts.jsonl"), rows.map((row) => JSON.stringify(row)).join("\n"));
  const small = [
    "model.n_layer=2",
    "model.n_head=2",
    "model.n_embd=32",
    "model.block_size=64",
    "data.tokenizer=char",
    "train.batch_size=8",
    "train.snapshots=3",
    "train.sample_interval=20",
  ];
  const prompt = (text) => `sample.prompt=${text}<sep>`;
  const facts = (name, ...settings) => run(folder, name, "facts.jsonl", ...small, ...settings);
  facts(
    "answers",
    "data.loss_on=answer",
    "train.optimizer=adamw",
    "train.epochs=20",
    prompt("日本的首都是哪里？"),
  );
  facts("all", "train.epochs=4", prompt("埃及的首都是哪里？"));
  facts(
    "order",
    "model.position_embedding=none",
    "model.norm_position=post",
    "train.epochs=1",
    prompt("中国的首都是哪里？"),
  );
  withoutTokenizer(join(folder, "runs/order/best"), join(folder, "bare"));
  return folder;
}

/** A copy of a model without what makes text of its ids. */
function withoutTokenizer(model, copy) {
  cpSync(model, copy, { recursive: true });
  for (const file of [
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "vocab.json",
  ])
    rmSync(join(copy, file), { force: true });
}

/**
 * A folder with small models: `first` learnt something and kept snapshots; the others have unusual
 * shapes.
 */
export function trained() {
  const folder = mkdtempSync(join(tmpdir(), "minigpt-page-"));
  const countries = [
    ["法国", "巴黎"],
    ["智利", "圣地亚哥"],
    ["日本", "东京"],
    ["意大利", "罗马"],
    ["中国", "北京"],
    ["埃及", "开罗"],
  ];
  const rows = countries.flatMap(([country, capital]) => [
    { question: `${country}的首都是哪里？`, answer: capital },
    { question: `哪里是${country}的首都？`, answer: capital },
    { question: `What is the capital of ${country}?`, answer: `${capital}.` },
  ]);
  HOSTILE.forEach((text) =>
    rows.push({
      question: `Say ${text.replaceAll("\u0000", "")}`,
      answer: text.replaceAll("\u0000", ""),
    }),
  );
  writeFileSync(
    join(folder, "data.jsonl"),
    Array.from({ length: 6 }, () => rows)
      .flat()
      .map((row) => JSON.stringify(row))
      .join("\n"),
  );
  const train = (name, data, ...settings) => run(folder, name, data, ...settings);
  const small = [
    "model.n_layer=2",
    "model.n_head=2",
    "model.n_embd=32",
    "model.block_size=128",
    "data.tokenizer=bpe:330",
    "train.batch_size=16",
  ];
  train(
    "first",
    "data.jsonl",
    ...small,
    "train.epochs=12",
    "train.snapshots=5",
    "train.sample_interval=10",
    "train.log_interval=5",
    "sample.prompt=智利的首都是哪里？<sep>",
  );
  train(
    "second",
    "data.jsonl",
    ...small,
    "train.epochs=2",
    "train.learning_rate=0.001",
    "train.snapshots=0",
  );
  train(
    "wide",
    "data.jsonl",
    ...small.filter((s) => !/n_layer|n_head|n_embd|block/.test(s)),
    "model.n_layer=12",
    "model.n_head=12",
    "model.n_embd=48",
    "model.block_size=1024",
    "train.epochs=1",
    "train.snapshots=0",
  );
  train(
    "single",
    "data.jsonl",
    ...small.filter((s) => !/n_layer|n_head/.test(s)),
    "model.n_layer=1",
    "model.n_head=1",
    "train.epochs=1",
    "train.snapshots=0",
  );
  train(
    "post",
    "data.jsonl",
    ...small,
    "model.norm_position=post",
    "train.epochs=1",
    "train.snapshots=0",
  );
  sweep(join(folder, "runs/sweep"));
  withoutTokenizer(join(folder, "runs/single/best"), join(folder, "bare"));
  return folder;
}

export const MODELS = [
  "first=runs/first",
  "wide=runs/wide",
  "single=runs/single",
  "post=runs/post",
  "bare=bare",
];

/** A server of these models; `stop()` ends it. */
export async function serve(folder, { port = 0, models = MODELS, more = [] } = {}) {
  const child = spawn(
    MINIGPT,
    [
      "serve",
      ...models.flatMap((model) => ["--model", model]),
      "--runs",
      "runs",
      "--port",
      String(port),
      "--json",
      ...more,
    ],
    { cwd: folder, stdio: ["ignore", "pipe", "pipe"] },
  );
  let log = "";
  child.stderr.on("data", (data) => {
    log += data;
  });
  const address = await new Promise((done, fail) => {
    let out = "";
    child.stdout.on("data", (data) => {
      out += data;
      try {
        done(JSON.parse(out).address);
      } catch {
        /* not all of it yet */
      }
    });
    child.on("exit", () => fail(new Error(`the server ended:\n${log}`)));
  });
  const ended = new Promise((done) => child.on("exit", done));
  return {
    address,
    port: Number(new URL(address).port),
    log: () => log,
    stop: async () => {
      child.kill("SIGTERM");
      await ended;
    },
  };
}

/** A browser without a window. */
export const browser = () =>
  chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--no-first-run",
    ],
  });

/**
 * The page's files from a folder (`PAGE=minigpt-serve/page`), with the server's own headers: a
 * change is seen without a build.
 */
async function fromDisk(route) {
  const path = new URL(route.request().url()).pathname.slice(1) || "index.html";
  if (!existsSync(join(process.env.PAGE, path))) return route.continue();
  try {
    const response = await route.fetch();
    const body = readFileSync(join(process.env.PAGE, path));
    // A file that the program does not have yet.
    if (response.status() === 404)
      await route.fulfill({
        contentType: path.endsWith(".js") ? "text/javascript" : "text/css",
        body,
      });
    else await route.fulfill({ response, status: 200, body });
  } catch {
    await route.abort("connectionrefused").catch(() => {});
  }
}

/** A page that remembers everything that went wrong on it. */
export async function visit(
  chrome,
  { language = "en", theme = "light", width = 1280, height = 900, touch = false } = {},
) {
  const context = await chrome.newContext({
    locale: language === "zh" ? "zh-CN" : "en-US",
    colorScheme: theme,
    viewport: { width, height },
    hasTouch: touch,
    isMobile: touch,
    reducedMotion: "reduce",
  });
  await context.addInitScript(() => {
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (event) =>
      window.violations.push(`${event.violatedDirective} ${event.blockedURI}`),
    );
  });
  if (process.env.PAGE) await context.route(/\/($|icon\.svg$|(js|css)\/)/, fromDisk);
  const page = await context.newPage();
  const wrong = [];
  page.on("console", (message) => {
    if (message.type() === "error") wrong.push(message.text());
  });
  page.on("pageerror", (error) => wrong.push(String(error.stack)));
  page.setDefaultTimeout(60_000);
  return {
    page,
    wrong,
    close: () => context.close(),
    violations: () => page.evaluate(() => window.violations),
  };
}

/** Waits until nothing is being loaded. */
export const quiet = (page) =>
  page.waitForFunction(
    () =>
      document.getElementById("loading").hidden &&
      !document.querySelector("[aria-busy]") &&
      document.querySelector("main")?.childElementCount > 0,
    null,
    { polling: 50 },
  );

export const VIEWS = [
  "next",
  "head",
  "heads",
  "lens",
  "attribution",
  "ablation",
  "patching",
  "walk",
];
/**
 * The address of a view with something to see: of another server's model the page's own examples,
 * of ours two texts as long as each other.
 */
const TWO = process.env.SERVER
  ? ""
  : `&text=${encodeURIComponent("法国的首都是哪里？<sep>")}&other=${encodeURIComponent("智利的首都是哪里？<sep>")}`;
export const viewAddress = (view, more = "") =>
  `#/inside?view=${view}${view === "ablation" ? "&off=0.1,mlp.0" : ""}${view === "patching" ? TWO : ""}${more}`;
/** Every place and view. */
export const PLACES = {
  chat: "#/chat",
  ...Object.fromEntries(VIEWS.map((view) => [`inside-${view}`, viewAddress(view)])),
  training: `#/training?runs=${process.env.RUNS ?? "first,second"}`,
  ...Object.fromEntries([1, 2, 3, 4, 5, 6, 7].map((n) => [`learn-${n}`, `#/learn/${n}`])),
};
