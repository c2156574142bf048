// The page in a real browser, on models trained here: every view in both languages, and what may go
// wrong.
import { test as unlimited, before, after } from "node:test";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import {
  trained,
  serve,
  browser,
  visit,
  quiet,
  minigpt,
  axeSource,
  HOSTILE,
  PLACES,
  VIEWS,
  viewAddress,
} from "./stage.js";

/**
 * A test that waits for something that never comes fails, instead of holding up everything after
 * it.
 */
const test = (name, body) => unlimited(name, { timeout: 180_000 }, body);

let folder, server, chrome;
before(async () => {
  folder = trained();
  server = await serve(folder);
  chrome = await browser();
});
after(async () => {
  await chrome?.close();
  await server?.stop();
});

/** Opens an address on a fresh page. */
async function open(hash, options) {
  const visited = await visit(chrome, options);
  await visited.page.goto(`${server.address}/${hash}`);
  await quiet(visited.page);
  return visited;
}
const fine = async ({ page, wrong, violations }) => {
  assert.deepEqual(wrong, []);
  assert.deepEqual(await violations(), []);
  assert.equal(
    await page.locator(".failure").count(),
    0,
    await page
      .locator(".failure")
      .allTextContents()
      .then((texts) => texts.join()),
  );
};

/** Values that were meant to be left out, or that nobody found, and stand on the page as words. */
function strayWords() {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT),
    found = [];
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim();
    if (
      /^(null|false|true|NaN)$|undefined|\[object/.test(text) &&
      !walker.currentNode.parentElement.closest(".mono, code, pre")
    )
      found.push(text);
  }
  return [
    ...found,
    ...[...document.querySelectorAll(".mono")]
      .map((e) => e.textContent)
      .filter((text) => /undefined|\[object|^#?NaN$/.test(text)),
  ];
}

for (const language of ["en", "zh"]) {
  test(`every place and view in ${language}: nothing goes wrong, and each asks its question`, async () => {
    const visited = await open("#/chat", { language }),
      { page } = visited;
    for (const [name, hash] of Object.entries(PLACES)) {
      await page.goto(`${server.address}/${hash}`);
      await quiet(page);
      assert.match(
        await page
          .locator(name.startsWith("inside") ? "h2" : "h1")
          .first()
          .textContent(),
        /[?？]$/,
        name,
      );
      if (name.startsWith("inside"))
        assert.equal(await page.locator('.view a[href^="#/learn"]').count(), 1, name);
      assert.equal(
        await page.evaluate(() => document.documentElement.lang),
        language === "zh" ? "zh-CN" : "en",
      );
      assert.ok(
        await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
        `${name} is wider than the window`,
      );
      assert.deepEqual(await page.evaluate(strayWords), [], name);
      await fine(visited).catch((error) => {
        error.message = `${name}: ${error.message}`;
        throw error;
      });
    }
    await visited.close();
  });
}

test("the bars are the numbers that the command line gives", async () => {
  const prompt = "智利的首都是哪里？<sep>";
  const { top } = JSON.parse(
    minigpt(folder, "inspect", "--model", "runs/first", "--prompt", prompt, "--json"),
  );
  const visited = await open(`#/inside?text=${encodeURIComponent(prompt)}`);
  await visited.page.locator(".next-bars .value").first().waitFor();
  const shown = await visited.page.locator(".next-bars .value").allTextContents();
  top
    .slice(0, 5)
    .forEach((token, i) =>
      assert.ok(
        Math.abs(parseFloat(shown[i]) - 100 * token.probability) < 0.06,
        `${shown[i]} is not ${token.probability}`,
      ),
    );
  await fine(visited);
  await visited.close();
});

test("a slider acts at once, on the logits that are there", async () => {
  const visited = await open("#/inside?view=next"),
    { page } = visited;
  await page.locator(".next-bars .value").first().waitFor();
  const asked = [];
  page.on("request", (request) => asked.push(request.url()));
  const milliseconds = await page.evaluate(async () => {
    const input = document.querySelector(".sliders input"),
      before = document.querySelector(".next-bars").textContent;
    const start = performance.now();
    input.value = "0.3";
    input.dispatchEvent(new Event("input"));
    while (document.querySelector(".next-bars").textContent === before)
      await new Promise(requestAnimationFrame);
    return performance.now() - start;
  });
  console.log(`a slider acts within ${milliseconds.toFixed(0)} ms`);
  await page.getByRole("slider", { name: "top-k" }).fill("3");
  await page.waitForFunction(() => document.querySelectorAll(".next-bars .outline").length === 7);
  await page.getByRole("button", { name: "Draw 20" }).click();
  await page.waitForFunction(() => document.querySelectorAll(".dots i").length === 20);
  assert.deepEqual(
    asked.filter((url) => /inspect/.test(url)),
    [],
    "nothing is asked of the server",
  );
  await visited.close();
});

test("hostile texts stay text", async () => {
  const visited = await open("#/chat"),
    { page } = visited;
  for (const text of HOSTILE) {
    await page.goto(`${server.address}/#/inside?view=lens&text=${encodeURIComponent(text)}`);
    await quiet(page);
    await page.locator(".strip .token").first().waitFor();
    assert.equal(await page.evaluate(() => window.hacked), undefined, text);
    assert.equal(await page.locator("main img, main script, main b").count(), 0, text);
  }
  await page.goto(`${server.address}/#/inside?text=${encodeURIComponent("你好👩‍🚀")}`);
  await quiet(page);
  await page.waitForFunction(() => document.querySelector(".strip")?.textContent.includes("你"));
  assert.ok(
    (await page.locator(".strip").textContent()).includes("你"),
    "characters of several tokens stand joined",
  );
  assert.ok((await page.locator(".strip .group").count()) > 0);
  await page.goto(`${server.address}/#/chat`);
  await page.getByRole("textbox").fill(HOSTILE[0]);
  await page.keyboard.press("Enter");
  await page.locator(".tools a").waitFor();
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  await fine(visited);
  await visited.close();
});

test("an answer streams, tells its probabilities, and leads inside", async () => {
  const visited = await open("#/chat?t=0"),
    { page } = visited;
  await page.getByRole("textbox").fill("智利的首都是哪里？");
  await page.keyboard.press("Enter");
  await page.locator(".tools a").waitFor();
  await page.locator(".answer .said").first().focus();
  await page.locator(".answer .said").first().hover();
  assert.match(await page.locator("#tip").textContent(), /%/);
  await page.locator(".tools a").click();
  await quiet(page);
  assert.match(await page.locator("textarea").inputValue(), /^智利的首都是哪里？<sep>/);
  await page.goBack();
  await page.locator(".answer").waitFor();
  await fine(visited);
  await visited.close();
});

test("a question is asked again and edited; several models answer side by side", async () => {
  const visited = await open("#/chat?t=0&beside=single,post"),
    { page } = visited;
  await page.getByRole("textbox").fill("智利的首都是哪里？");
  await page.keyboard.press("Enter");
  await page.locator(".column").nth(2).locator(".tools a").waitFor();
  assert.deepEqual(await page.locator(".column h2").allTextContents(), ["first", "single", "post"]);
  const said = await page.locator(".answer").first().textContent();
  await page.getByRole("button", { name: "Ask again" }).first().click();
  await page.locator(".column").nth(2).locator(".tools a").waitFor();
  assert.equal(
    await page.locator(".answer").first().textContent(),
    said,
    "greedy says the same again",
  );
  await page.getByRole("button", { name: "Edit" }).first().click();
  await page.locator(".question textarea").fill("法国的首都是哪里？");
  await page.locator(".question form button").click();
  await page.locator(".question p", { hasText: "法国" }).nth(2).waitFor();
  await page.locator(".column").nth(2).locator(".tools a").waitFor();
  assert.equal(
    await page.locator(".turn").count(),
    3,
    "the edited question takes the place of the first",
  );
  await page.goto(`${server.address}/#/chat?model=bare`);
  await page.getByText("has no tokenizer").waitFor();
  await page.goto(`${server.address}/#/chat?model=first`);
  await page.getByRole("textbox").waitFor();
  await fine(visited);
  await visited.close();
});

test("a block is switched off as a whole, and what is off is named", async () => {
  const visited = await open("#/inside?view=ablation"),
    { page } = visited;
  await page.getByRole("button", { name: "Block 0 is on" }).click();
  await page.getByRole("heading", { name: "Without Block 0" }).waitFor();
  assert.ok(await page.getByRole("button", { name: "0.1 is on" }).isDisabled());
  await page.getByRole("button", { name: "All on again" }).click();
  await page.getByText("Everything is on").waitFor();
  await fine(visited);
  await visited.close();
});

test("a text that is too long says so, and a shorter one is shown again", async () => {
  const visited = await open("#/inside?view=lens"),
    { page } = visited;
  await page.locator(".view .lens").waitFor();
  await page.locator("textarea").fill("long ".repeat(400));
  await page.locator(".tokens-box .failure").waitFor();
  assert.ok(await page.locator(".view").isHidden());
  await page.locator("textarea").fill("智利的首都是哪里？<sep>");
  await page.locator(".view .lens").waitFor();
  await page.locator("textarea").fill("");
  await page.getByText("Type something above").waitFor();
  await visited.close();
});

test("nothing jumps while data arrive", async () => {
  const visited = await visit(chrome),
    { page } = visited;
  await page.addInitScript(() => {
    window.moved = 0;
    new PerformanceObserver((list) =>
      list.getEntries().forEach((entry) => {
        if (!entry.hadRecentInput) window.moved += entry.value;
      }),
    ).observe({ type: "layout-shift", buffered: true });
  });
  for (const [name, hash] of Object.entries(PLACES)) {
    await page.goto("about:blank");
    await page.goto(`${server.address}/${hash}`);
    await quiet(page);
    await page.waitForTimeout(200);
    const moved = await page.evaluate(() => window.moved);
    assert.ok(moved < 0.05, `${name} moves by ${moved}`);
  }
  await visited.close();
});

test("a curve is zoomed, and the crosshair shows the sample of its step", async () => {
  const visited = await open("#/training?runs=first"),
    { page } = visited;
  await page.locator(".sample blockquote").waitFor();
  const chart = page.locator(".chart").first(),
    { x, y, width } = await chart.boundingBox();
  const last = await page.locator(".sample small").textContent(),
    ticks = () =>
      chart
        .locator(".axis")
        .allTextContents()
        .then((texts) => texts.join());
  const whole = await ticks();
  await page.mouse.move(x + 70, y + 100);
  await page.waitForFunction(
    (before) => document.querySelector(".sample small").textContent !== before,
    last,
  );
  assert.match(await page.locator(".chart-reading").first().textContent(), /step .*first/);
  await page.mouse.down();
  await page.mouse.move(x + width / 2, y + 120, { steps: 4 });
  await page.mouse.up();
  await page.waitForTimeout(100);
  assert.notEqual(await ticks(), whole);
  await page.getByRole("button", { name: "Whole range" }).click();
  await page.waitForTimeout(100);
  assert.equal(await ticks(), whole);
  await fine(visited);
  await visited.close();
});

test("the step at which a role appears is marked on the loss curve", async () => {
  const visited = await visit(chrome),
    { page } = visited;
  await page.route("**/v1/inspect/heads", async (route) => {
    const { model } = route.request().postDataJSON(),
      answer = await route.fetch(),
      measured = await answer.json();
    if (Number(/\/(\d+)$/.exec(model)?.[1] ?? 0) > 0) measured.heads[0].role = "previous";
    await route.fulfill({ response: answer, json: measured });
  });
  await page.goto(`${server.address}/#/training?runs=first`);
  await page.getByText("previous token 0.0", { exact: true }).waitFor();
  await visited.close();
});

test("a sweep is one entry with three pictures, each with its question", async () => {
  const visited = await open("#/training?runs=sweep"),
    { page } = visited;
  await page.locator(".pictures img").nth(2).waitFor();
  for (const caption of await page.locator(".pictures figcaption").allTextContents())
    assert.match(caption, /\?$/);
  await fine(visited);
  await visited.close();
});

test("a stream is cancelled, and the server stops writing", async () => {
  const visited = await open("#/chat?model=wide&t=2"),
    { page } = visited;
  await page.route("**/v1/chat/completions", async (route) =>
    route.continue({
      postData: JSON.stringify({
        ...route.request().postDataJSON(),
        ignore_eos: true,
        max_completion_tokens: 900,
      }),
    }),
  );
  await page.getByRole("textbox").fill("Say something long");
  // Pressed within the page, as soon as there are a few tokens: a quick program would have said all
  // 900 before a driver's click.
  const pressed = page.evaluate(
    () =>
      new Promise((done) => {
        const watch = new MutationObserver(() => {
          if (document.querySelectorAll(".answer .said").length < 4) return;
          watch.disconnect();
          [...document.querySelectorAll(".ask button")]
            .find((button) => button.textContent === "Stop")
            .click();
          done();
        });
        watch.observe(document.querySelector(".columns"), { childList: true, subtree: true });
      }),
  );
  await page.keyboard.press("Enter");
  await pressed;
  await page.getByText("stopped").waitFor();
  for (let tries = 0; ; tries++) {
    const slots = await (await fetch(`${server.address}/slots?model=wide`)).json();
    if (!JSON.stringify(slots).includes('"is_processing":true')) break;
    assert.ok(tries < 50, "the server goes on writing");
    await new Promise((done) => setTimeout(done, 100));
  }
  await fine(visited);
  await visited.close();
});

test("a run that starts while the page watches appears and grows", async () => {
  const visited = await open("#/training"),
    { page } = visited;
  await page.getByText("watching").waitFor();
  const child = spawn(
    process.env.MINIGPT,
    [
      "train",
      "--config",
      "builtin",
      "--out",
      "runs/late",
      "--quiet",
      ...[
        "data.path=data.jsonl",
        "data.max_length=128",
        "model.n_layer=1",
        "model.n_head=1",
        "model.n_embd=16",
        "data.tokenizer=bpe:300",
        "train.epochs=100000",
        "train.log_interval=1",
        "train.snapshots=0",
      ].flatMap((setting) => ["--set", setting]),
    ],
    { cwd: folder },
  );
  const ended = new Promise((done) => child.on("exit", done)); // asked for at once: who asks after the end is never told
  try {
    await page.getByText("late", { exact: true }).waitFor();
    await page.goto(`${server.address}/#/training?runs=late`);
    const steps = async () =>
      parseFloat(
        (await page.locator(".fact").first().textContent()).match(/: ([\d.]+)/)?.[1] ?? "0",
      );
    await page.locator(".fact").first().waitFor();
    const first = await steps();
    await page.waitForFunction(
      (before) =>
        parseFloat(document.querySelector(".fact")?.textContent.match(/: ([\d.]+)/)?.[1] ?? "0") >
        before,
      first,
    );
  } finally {
    child.kill("SIGINT");
    await ended;
  }
  await fine(visited);
  await visited.close();
});

test("the slider over snapshots moves tokens, attention, lens and answer together", async () => {
  const visited = await open(
      `#/training?runs=first&text=${encodeURIComponent("智利的首都是哪里？<sep>")}`,
    ),
    { page } = visited;
  await page.locator(".snapshot-body .lens").waitFor();
  const look = () =>
    page.evaluate(() => ({
      lens: document.querySelector(".snapshot-body .lens").textContent,
      loss: document.querySelector(".snapshot-body .num.small").textContent,
      map: document.querySelector(".snapshot-body canvas").toDataURL(),
    }));
  const last = await look();
  await page.locator(".snapshot-slider input").fill("0");
  await page.waitForFunction(
    (before) => document.querySelector(".snapshot-body .lens")?.textContent !== before,
    last.lens,
  );
  await page.waitForTimeout(100);
  const first = await look();
  assert.notEqual(first.loss, last.loss);
  assert.notEqual(first.map, last.map);
  await fine(visited);
  await visited.close();
});

test("unusual models: 12 × 12 heads and 1,024 tokens, one head, post-norm, no tokenizer", async () => {
  const visited = await open("#/inside?model=single&view=heads"),
    { page } = visited;
  await page.locator(".head-cell").waitFor();
  await fine(visited);
  for (const view of VIEWS) {
    await page.goto(`${server.address}/${viewAddress(view, "&model=post")}`);
    await quiet(page);
    if (view === "attribution")
      assert.match(await page.locator(".view .empty").textContent(), /post-norm/);
    await page.waitForFunction(() => !document.querySelector(".view .failure"));
  }
  await page.goto(`${server.address}/#/inside?model=bare&ids=${encodeURIComponent("5 6 7 5 6")}`);
  await quiet(page);
  await page.locator(".strip .token").nth(4).waitFor();
  await page.goto(`${server.address}/#/inside?model=wide&view=heads`);
  await page.locator(".head-cell").nth(143).waitFor();
  await visited.close();
});

test("a head of 1,024 × 1,024 scrolls without a long frame", async () => {
  const ids = Array.from({ length: 1024 }, (_, i) => 10 + ((i * 37) % 250)).join(" ");
  const visited = await open(`#/inside?model=wide&view=heads&ids=${encodeURIComponent(ids)}`),
    { page } = visited;
  await page.locator(".big-head .heat-box").waitFor();
  await page.locator(".strip .token").nth(1023).waitFor();
  const frames = await page.evaluate(async () => {
    const box = document.querySelector(".big-head .heat-box"),
      gaps = [];
    let last = performance.now();
    for (let i = 0; i < 120; i++) {
      box.scrollTop = (i * 61) % (box.scrollHeight - box.clientHeight);
      box.scrollLeft = (i * 43) % (box.scrollWidth - box.clientWidth);
      await new Promise(requestAnimationFrame);
      const now = performance.now();
      gaps.push(now - last);
      last = now;
    }
    return gaps.slice(5).sort((a, b) => a - b);
  });
  console.log(
    `scrolling 1,024 × 1,024: median frame ${frames[frames.length >> 1].toFixed(1)} ms, longest ${frames.at(-1).toFixed(1)} ms`,
  );
  // The longest belongs to the machine, too, when others compute beside the test: nine of ten must
  // be quick whatever happens.
  assert.ok(frames[Math.floor(frames.length * 0.9)] < 50);
  console.log(`nine frames of ten take up to ${frames[Math.floor(frames.length * 0.9)]} ms`);
  await fine(visited);
  await visited.close();
});

test("Inside can be walked through with the keyboard alone", async () => {
  const visited = await open("#/inside?view=heads"),
    { page } = visited;
  await page.locator('.strip .token[tabindex="0"]').focus();
  await page.keyboard.press("ArrowLeft");
  await page.waitForFunction(() => /at=\d/.test(location.hash));
  assert.match(await page.locator("#tip").textContent(), /\S/, "the focus shows the numbers");
  await page.locator(".tabs a").first().focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /view=next/.test(location.hash));
  await page.goBack();
  await quiet(page);
  await page.locator(".big-head canvas").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  assert.match(await page.locator("#said").textContent(), /→/, "the cell is said");
  const unreachable = await page.evaluate(
    () =>
      [...document.querySelectorAll("main button, main a, main input, main select")].filter(
        (element) => element.offsetParent && element.tabIndex < 0 && !element.closest(".strip"),
      ).length,
  );
  assert.equal(unreachable, 0);
  await fine(visited);
  await visited.close();
});

test("axe finds no serious problem in any place, light and dark", async () => {
  const source = readFileSync(axeSource, "utf8");
  for (const theme of ["light", "dark"]) {
    const visited = await open("#/chat", { theme, language: theme === "dark" ? "zh" : "en" }),
      { page } = visited;
    for (const [name, hash] of Object.entries(PLACES)) {
      await page.goto(`${server.address}/${hash}`);
      await quiet(page);
      // As a debugger does it: the page's own policy lets nobody else in.
      const session = await page.context().newCDPSession(page);
      await session.send("Runtime.evaluate", { expression: source });
      const { result } = await session.send("Runtime.evaluate", {
        awaitPromise: true,
        returnByValue: true,
        expression:
          "axe.run(document, { resultTypes: ['violations'] }).then(r => r.violations.filter(v " +
          "=> ['serious', 'critical'].includes(v.impact)).map(v => `${v.id}: ${v.nodes.length} " +
          "× ${v.nodes[0].html.slice(0, 160)} ${v.nodes[0].failureSummary.slice(0, 300)}`))",
      });
      assert.deepEqual(result.value, [], `${name} ${theme}`);
      await session.detach();
    }
    await visited.close();
  }
});

test("both languages and themes can be switched, and stay", async () => {
  const visited = await open("#/inside"),
    { page } = visited;
  await page.getByRole("button", { name: "切换到中文" }).click();
  await quiet(page);
  assert.equal(await page.locator("h1").textContent(), "里面发生了什么？");
  await page.getByRole("button", { name: "浅色或深色" }).click();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await page.reload();
  await quiet(page);
  assert.equal(await page.locator("h1").textContent(), "里面发生了什么？");
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await fine(visited);
  await visited.close();
});

test("a server that asks for a key is asked with one", async () => {
  const locked = await serve(folder, {
    models: ["first=runs/first"],
    more: ["--api-key", "open-sesame"],
  });
  const visited = await visit(chrome),
    { page } = visited;
  await page.goto(locked.address);
  await page.getByRole("dialog").getByRole("textbox").fill("wrong");
  await page.keyboard.press("Enter");
  await page.getByText("not the right one").waitFor();
  await page.getByRole("dialog").getByRole("textbox").fill("open-sesame");
  await page.keyboard.press("Enter");
  await page.locator("h1").waitFor();
  await page.reload();
  await page.locator("h1").waitFor();
  assert.equal(await page.getByRole("dialog").count(), 0, "the key is remembered for this visit");
  await visited.close();
  await locked.stop();
});

test("the server goes away and comes back, and the page goes on", async () => {
  const visited = await open("#/inside?view=lens"),
    { page, wrong } = visited;
  await server.stop();
  await page.locator(".strip .token").first().click();
  await page.goto(`${server.address}/#/inside?view=walk`).catch(() => {});
  await page.locator(".away").waitFor();
  server = await serve(folder, { port: server.port });
  await page.locator(".away").waitFor({ state: "detached" });
  await page.locator(".walk .step").first().waitFor();
  assert.deepEqual(
    wrong.filter((text) => !/ERR_CONNECTION|Failed to fetch|Failed to load resource/.test(text)),
    [],
  );
  await visited.close();
});
