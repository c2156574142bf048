// Pictures of every place and view, in both languages and themes and at three widths, and a page
// that shows them.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { trained, serve, browser, visit, quiet, PLACES } from "./stage.js";

const out = process.argv[2],
  folder = process.env.MODELS ?? trained();
mkdirSync(out, { recursive: true });
const server = process.env.SERVER
  ? { address: process.env.SERVER, stop: async () => {} }
  : await serve(folder);
const chrome = await browser(),
  names = [];

/** Those of the READMEs. */
const README = {
  "page-inside.png": {
    language: "en",
    theme: "light",
    height: 1404,
    hash: "#/inside?view=head&layer=2&head=1",
  },
  "page-inside.zh.png": {
    language: "zh",
    theme: "light",
    height: 1404,
    hash: `#/inside?view=head&layer=2&head=1&text=${encodeURIComponent("What is the capital of Chile?<sep>The capital of Chile is")}`,
  },
  "page-learn.zh.png": { language: "zh", theme: "dark", height: 1080, hash: "#/learn/3" },
};
if (process.env.README) {
  for (const [name, { hash, height, ...how }] of Object.entries(README)) {
    const { page, close } = await visit(chrome, { ...how, width: 1280, height });
    await page.goto(`${server.address}/${hash}`);
    await quiet(page);
    await page.waitForTimeout(400);
    await page.screenshot({ path: join(out, name) });
    await close();
  }
  await chrome.close();
  await server.stop();
  process.exit();
}

for (const language of ["en", "zh"])
  for (const theme of ["light", "dark"])
    for (const width of [1280, 820, 390]) {
      const { page, wrong, close } = await visit(chrome, { language, theme, width });
      for (const [name, hash] of Object.entries(PLACES)) {
        await page.goto(`${server.address}/${hash}`);
        await quiet(page);
        await page.waitForTimeout(150);
        const file = `${name}-${language}-${theme}-${width}.png`;
        await page.screenshot({ path: join(out, file), fullPage: true });
        names.push(file);
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (over > 0 || wrong.length)
          console.log(
            `${file}: ${over > 0 ? `${over} px too wide ` : ""}${wrong.splice(0).join("; ")}`,
          );
      }
      await close();
    }
const figure = (name) =>
  `<figure><a href="${name}"><img loading="lazy" src="${name}" alt=""></a><figcaption>${name}</figcaption></figure>`;
writeFileSync(
  join(out, "index.html"),
  `<!doctype html><meta charset="utf-8"><title>Screenshots</title><style>body{display:flex;flex-wrap:wrap;gap:12px;font:12px sans-serif}figure{margin:0;width:300px}img{width:100%;height:220px;object-fit:cover;object-position:top;border:1px solid #ccc}</style>${names.map(figure).join("\n")}\n`,
);
console.log(`${names.length} pictures: ${join(out, "index.html")}`);
await chrome.close();
await server.stop();
