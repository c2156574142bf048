// What the page says is true of the model and the run that are there: settings, examples, sentences,
// formulas, errors. In a real browser, on models that differ in what is true of them.
import { test as unlimited, before, after } from "node:test";
import assert from "node:assert/strict";
import { fewFacts, serve, browser, visit, quiet, FACTS } from "./stage.js";

const test = (name, body) => unlimited(name, { timeout: 180_000 }, body);

let server, chrome;
before(async () => {
  const models = ["answers=runs/answers", "all=runs/all", "order=runs/order", "bare=bare"];
  server = await serve(fewFacts(), { models });
  chrome = await browser();
});
after(async () => {
  await chrome?.close();
  await server?.stop();
});

async function open(hash, options) {
  const visited = await visit(chrome, options);
  await visited.page.goto(`${server.address}/${hash}`);
  await quiet(visited.page);
  return visited;
}
const said = (page) => page.locator("main").textContent();

test("the chat begins at the server's settings for the model and sends only what was changed", async () => {
  const { page, close } = await open("#/chat?model=answers");
  const bodies = [];
  page.on("request", (request) => {
    if (request.url().endsWith("/chat/completions")) bodies.push(request.postDataJSON());
  });
  const ask = async (times) => {
    await page.getByRole("textbox", { name: "Ask something" }).fill("日本的首都是哪里？");
    await page.keyboard.press("Enter");
    await page.locator(".turn").nth(times).locator(".tools a").waitFor();
  };
  await page.getByRole("button", { name: "Settings" }).click();
  const temperature = page.getByRole("slider", { name: "Temperature" });
  assert.equal(await temperature.inputValue(), "0", "a question has one right answer");
  await ask(0);
  assert.equal(bodies[0].temperature, undefined);
  assert.equal(bodies[0].top_k, undefined);
  await temperature.fill("1");
  await temperature.dispatchEvent("change");
  await page.waitForFunction(() => /[?&]t=1(&|$)/.test(location.hash));
  await ask(1);
  assert.equal(bodies[1].temperature, 1);
  await close();
});

test("suggestions and examples are rows of the run's data, in every place", async () => {
  const questions = FACTS.map(({ question }) => question);
  const { page, close } = await open("#/chat?model=answers", { language: "zh" });
  for (const text of await page.locator(".empty button").allTextContents())
    assert.ok(questions.includes(text), text);
  await page.goto(`${server.address}/#/inside?model=answers`);
  await quiet(page);
  const offered = await page.locator(".offered button").allTextContents();
  assert.ok(offered.length >= 3);
  for (const text of offered) assert.ok(questions.includes(text.split("<sep>")[0]), text);
  await page.goto(`${server.address}/#/learn/3?model=answers`);
  await quiet(page);
  const typed = await page.locator(".figure input.wide").first().inputValue();
  assert.ok(questions.includes(typed.replace("<sep>", "")), typed);
  await close();
});

test("snapshots begin with the run's own text; of two runs the page says which it shows", async () => {
  const { page, close } = await open("#/training?runs=answers,all");
  const text = page.locator(".snapshot-slider").locator("xpath=preceding-sibling::div[1]//input");
  await page.locator(".snapshot-body .lens").waitFor();
  const choice = page.getByLabel("Run:");
  assert.deepEqual(await choice.locator("option").allTextContents(), ["answers", "all"]);
  assert.equal(await text.inputValue(), "日本的首都是哪里？<sep>");
  await choice.selectOption("all");
  await page.waitForFunction(() => /of=all/.test(location.hash));
  await page.waitForFunction(() =>
    [...document.querySelectorAll("input")].some((input) => input.value.startsWith("埃及的首都")),
  );
  await quiet(page);
  assert.equal(await page.getByLabel("Run:").inputValue(), "all");
  await page.goto(`${server.address}/#/training?runs=order`);
  await quiet(page);
  await page.locator(".which strong", { hasText: "order" }).waitFor();
  await close();
});

for (const [language, note] of [
  ["en", "Not in the model’s vocabulary"],
  ["zh", "不在模型的词表里"],
])
  test(`characters that the vocabulary lacks are named where they are missed, in ${language}`, async () => {
    const text = encodeURIComponent("你喜欢日本吗？");
    const { page, close } = await open(`#/inside?model=answers&text=${text}`, { language });
    const told = await page.locator(".lacking").first().textContent();
    assert.ok(told.startsWith(note), told);
    assert.match(told, /你 喜 欢 吗$/);
    await page.goto(`${server.address}/#/chat?model=answers`);
    await quiet(page);
    await page.locator(".ask textarea").fill("你喜欢日本吗？");
    await page.keyboard.press("Enter");
    await page.locator(".turn .lacking").waitFor();
    assert.match(await page.locator(".turn .lacking").textContent(), /你 喜 欢 吗$/);
    await page.goto(`${server.address}/#/inside?model=answers&text=${encodeURIComponent("日本")}`);
    await quiet(page);
    assert.equal(await page.locator(".lacking").count(), 0);
    await close();
  });

test("only of a model that learned answers alone it is said that nobody asked it for questions", async () => {
  const text = encodeURIComponent("日本的首都是哪里？<sep>");
  const { page, close } = await open(`#/inside?model=answers&text=${text}`);
  assert.match(await said(page), /Nobody asked this model to guess the question/);
  await page.goto(`${server.address}/#/inside?model=all&text=${text}`);
  await quiet(page);
  assert.doesNotMatch(await said(page), /Nobody asked/);
  await close();
});

test("Learn says of optimizer, norm, positions, width and end tokens what is true of the model", async () => {
  const { page, close } = await open("#/learn/6?model=all");
  const chapter = async (n, model) => {
    await page.goto(`${server.address}/#/learn/${n}?model=${model}`);
    await page.waitForFunction(
      ([n, model]) =>
        document.querySelector(".chapter")?.textContent.includes(`Chapter ${n} of 7`) &&
        document.title.includes(model),
      [n, model],
    );
    await quiet(page);
    return page.locator(".chapter").textContent();
  };
  assert.match(await chapter(6, "all"), /loaded model used Muon/);
  assert.match(await chapter(6, "answers"), /loaded model used AdamW/);
  assert.match(await chapter(6, "answers"), /Recorded in the run answers, from which/);
  assert.doesNotMatch(await chapter(6, "bare"), /loaded model used/);
  assert.match(await chapter(5, "order"), /drawn above, is post-norm/);
  assert.match(await chapter(5, "all"), /drawn above, is pre-norm/);
  const second = await chapter(2, "order");
  assert.match(second, /32 of them in the loaded model/);
  await page.getByText("This model has no positions; what it notices").waitFor();
  await page.getByText("by 0.0000 in one layer, and by 0.1693 in two").waitFor();
  assert.match(await chapter(7, "answers"), /here <sep>, or/);
  await close();
});

test("formulas follow the configuration: post-norm, no biases, no positions", async () => {
  const { page, close } = await open("#/learn/5?model=order");
  const formula = () => page.locator(".formula").first().textContent();
  assert.equal(await formula(), "x←LN1(x+attn(x))x←LN2(x+mlp(x))");
  await page.goto(`${server.address}/#/learn/5?model=all`);
  await page.waitForFunction(() =>
    document.querySelector(".formula")?.textContent.includes("+attn"),
  );
  await quiet(page);
  assert.equal(await formula(), "x←x+attn(LN1(x))x←x+mlp(LN2(x))");
  await page.goto(`${server.address}/#/learn/4?model=all`);
  await quiet(page);
  assert.equal(await formula(), "LN(x)=x−μσ2+ε·g");
  await page.goto(`${server.address}/#/learn/2?model=order`);
  await quiet(page);
  assert.equal(await formula(), "xp=wte[tp]");
  await close();
});

for (const width of [390, 820])
  test(`every formula fits a window of ${width} pixels`, async () => {
    const { page, close } = await open("#/chat", { width, touch: width < 800 });
    for (const hash of [2, 3, 4, 5, 6, 7].map((n) => `#/learn/${n}`).concat("#/inside?view=head")) {
      await page.goto(`${server.address}/${hash}`);
      await quiet(page);
      await page.locator(".formula").first().waitFor();
      const wide = await page.evaluate(() =>
        [...document.querySelectorAll(".formula math")]
          .filter((math) => {
            const [inner, outer] = [math, math.closest(".formula")].map((element) =>
              element.getBoundingClientRect(),
            );
            return inner.left < outer.left - 1 || inner.right > outer.right + 1;
          })
          .map((math) => math.textContent),
      );
      assert.deepEqual(wide, [], hash);
      const cut = await page.evaluate(() =>
        [...document.querySelectorAll(".formula")]
          .filter((formula) => formula.scrollWidth > formula.clientWidth)
          .map((formula) => formula.textContent),
      );
      assert.deepEqual(cut, [], hash);
    }
    await close();
  });

test("on a phone a tap shows what a mouse shows by pointing, and the words say tap", async () => {
  const { page, close } = await open("#/inside?model=answers&view=head", {
    width: 390,
    touch: true,
  });
  assert.match(await said(page), /Tap a cell/);
  assert.doesNotMatch(await said(page), /Point at/);
  await page.locator(".strip .token").first().tap();
  await page.waitForFunction(() => !document.getElementById("tip").hidden);
  assert.match(await page.locator("#tip").textContent(), /Position/);
  await page.locator("h1").tap();
  await page.waitForFunction(() => document.getElementById("tip").hidden);
  await page.goto(`${server.address}/#/chat?model=answers`);
  await quiet(page);
  assert.match(await said(page), /Tap a token/);
  await close();
  const mouse = await open("#/chat?model=answers");
  assert.match(await said(mouse.page), /Point at a token/);
  await mouse.close();
});

test("errors are told in the page's language, with their reason", async () => {
  const { page, close } = await open("#/inside?model=answers", { language: "zh" });
  await page.locator("textarea").fill("日本".repeat(200));
  const failure = page.locator(".failure p").first();
  await failure.waitFor();
  assert.equal(
    await failure.textContent(),
    "这个模型最多能读 64 个词元，而这段文字有 400 个。请缩短一些。",
  );
  const answerWith = (response) =>
    page.route("**/v1/inspect/read", (route) => route.fulfill(response));
  await answerWith({ status: 413, contentType: "text/html", body: "<h1>Too large</h1>" });
  await page.locator("textarea").fill("中国");
  await page.getByText("服务器返回了状态码 413。发送的内容太长。").waitFor();
  await page.unroute("**/v1/inspect/read");
  await answerWith({ status: 200, contentType: "application/json", body: "not JSON" });
  await page.locator("textarea").fill("埃及");
  await page.getByText("服务器的回答无法读取").waitFor();
  await close();
});

test("an answer that is cut says so instead of looking whole", async () => {
  const { page, close } = await open("#/chat?model=answers");
  const body = 'data: {"choices":[{"delta":{"content":"half"}}]}\n\n';
  await page.route("**/v1/chat/completions", (route) =>
    route.fulfill({ status: 200, contentType: "text/event-stream", body }),
  );
  await page.getByRole("textbox", { name: "Ask something" }).fill("日本");
  await page.keyboard.press("Enter");
  await page.getByText("The connection broke before the answer was whole.").waitFor();
  assert.equal(
    await page
      .locator(".answer")
      .first()
      .textContent()
      .then((s) => s.slice(0, 4)),
    "half",
  );
  await close();
});

test("what is left of the distribution is said without rescaling 100 % to 100 %", async () => {
  const { page, close } = await open("#/inside?model=answers&view=next");
  const sum = page.locator(".next p.num");
  await page.waitForFunction(() =>
    /All \d+ tokens/.test(document.querySelector(".next p.num")?.textContent),
  );
  assert.doesNotMatch(await sum.textContent(), /100 %/);
  await page.getByRole("slider", { name: "top-k" }).fill("3");
  await page.waitForFunction(() => /^3 of/.test(document.querySelector(".next p.num").textContent));
  await page.getByRole("slider", { name: "Temperature" }).fill("0");
  await page.waitForFunction(() =>
    /^Greedy/.test(document.querySelector(".next p.num").textContent),
  );
  assert.doesNotMatch(await sum.textContent(), /rescaled/);
  await close();
});

test("the window's title says what is shown", async () => {
  const { page, close } = await open("#/inside?model=all&view=lens");
  assert.equal(await page.title(), "Logit lens · all · MiniGPT");
  await page.goto(`${server.address}/#/training?runs=all,answers`);
  await quiet(page);
  assert.equal(await page.title(), "Training · all, answers · MiniGPT");
  await page.goto(`${server.address}/#/learn/5?model=all`);
  await page.waitForFunction(() => document.title === "Why is it deep? · all · MiniGPT");
  await page.goto(`${server.address}/#/chat?model=all`);
  await quiet(page);
  assert.equal(await page.title(), "Chat · all · MiniGPT");
  await close();
});
