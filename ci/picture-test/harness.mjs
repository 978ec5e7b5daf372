// A browser, pages with everything they do recorded, and a list of checks.

import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const checks = [];

// Registers a check; its name is the promise it guards.
export function check(name, run) {
  checks.push({ name, run });
}

const FLAGS = [
  "--headless",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

// Runs the checks one after another and says how many passed.
export async function runChecks(folder) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: process.getuid?.() === 0 ? [...FLAGS, "--no-sandbox"] : FLAGS,
  });
  let [passed, failed] = [0, 0];
  for (const { name, run } of checks) {
    const opened = [];
    const begun = Date.now();
    const open = async (file, options = {}) => {
      const page = await openPage(browser, `file://${folder}/${file}`, options);
      opened.push(page);
      return page;
    };
    try {
      await run(open);
      for (const page of opened) {
        assert.deepEqual(page.problems, [], "errors on the page");
        assert.deepEqual(page.requests, [], "requests of the page");
      }
      passed++;
      console.log(`ok   ${name} (${((Date.now() - begun) / 1000).toFixed(1)} s)`);
    } catch (error) {
      failed++;
      console.log(`FAIL ${name}\n     ${String(error?.stack ?? error).replaceAll("\n", "\n     ")}`);
    }
    for (const page of opened) await page.context().close();
  }
  await browser.close();
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0 && passed > 0;
}

async function openPage(browser, url, options) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: "light", ...options });
  const page = await context.newPage();
  page.problems = [];
  page.requests = [];
  page.on("pageerror", (error) => page.problems.push(error.stack));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) page.problems.push(message.text());
  });
  page.on("dialog", (dialog) => {
    page.problems.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) => {
    const asked = request.url();
    if (asked !== url && !asked.startsWith("data:") && !asked.startsWith("blob:")) page.requests.push(asked);
  });
  page.on("popup", (popup) => page.problems.push(`popup: ${popup.url()}`));
  await page.goto(url);
  if (url.endsWith(".html")) {
    await page.waitForSelector("html[data-ready]", { timeout: 60000 });
    assert.equal(await page.getAttribute("html", "data-ready"), "yes");
  }
  return page;
}

// ---- things to do on a page of a plan ----

// Waits until nothing moves any more.
export async function settle(page) {
  await page.evaluate(async () => {
    let [same, before] = [0, ""];
    while (same < 3) {
      await new Promise((done) => setTimeout(done, 70));
      const now = JSON.stringify(memviz.view());
      same = now === before ? same + 1 : 0;
      before = now;
    }
  });
}

// The middle of a buffer's rectangle, in coordinates of the window.
export async function middleOf(page, name) {
  return page.evaluate((name) => {
    const index = memviz.indexOf(name);
    if (index < 0) throw new Error(`no buffer ${name}`);
    const box = document.getElementById("stage").getBoundingClientRect();
    const { x0, x1, y0, y1 } = memviz.place(index);
    return { x: box.x + (x0 + x1) / 2, y: box.y + (y0 + y1) / 2 };
  }, name);
}

// Just inside the lower left corner of a buffer's rectangle, where it has no name and no border.
export async function cornerOf(page, name) {
  return page.evaluate((name) => {
    const box = document.getElementById("stage").getBoundingClientRect();
    const { x0, y1 } = memviz.place(memviz.indexOf(name));
    return { x: box.x + x0 + 3, y: box.y + y1 - 3 };
  }, name);
}

// The place in the window of a moment and a byte of the plan.
export async function placeOf(page, time, byte) {
  return page.evaluate(
    ([time, byte]) => {
      const box = document.getElementById("stage").getBoundingClientRect();
      const [view, plot] = [memviz.view(), memviz.plot()];
      return {
        x: box.x + plot.x + ((time - view.x0) / (view.x1 - view.x0)) * plot.w,
        y: box.y + plot.y + ((view.y1 - byte) / (view.y1 - view.y0)) * plot.h,
      };
    },
    [time, byte],
  );
}

// Mean colour of the drawing around a place in the window: [red, green, blue].
export async function colorAt(page, { x, y }, half = 0) {
  return page.evaluate(
    ([x, y, half]) => {
      const canvas = document.getElementById("base");
      const box = canvas.getBoundingClientRect();
      const ratio = canvas.width / box.width;
      const [left, top] = [Math.round((x - box.x) * ratio) - half, Math.round((y - box.y) * ratio) - half];
      const { data } = canvas.getContext("2d").getImageData(left, top, 2 * half + 1, 2 * half + 1);
      const sum = [0, 0, 0];
      for (let i = 0; i < data.length; i++) if (i % 4 < 3) sum[i % 4] += data[i];
      return sum.map((value) => (value * 4) / data.length);
    },
    [x, y, half],
  );
}

// A custom property of the page as [red, green, blue].
export async function token(page, name) {
  const text = await page.evaluate((name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`), name);
  return [1, 3, 5].map((at) => parseInt(text.trim().slice(at, at + 2), 16));
}

export function distance(a, b) {
  return Math.hypot(...a.map((value, i) => value - b[i]));
}

// Text as written, with ordinary spaces.
export async function textOf(page, selector) {
  return (await page.locator(selector).innerText()).replaceAll("\u00a0", " ");
}

// Terms and details of a description list.
export async function rowsOf(page, selector) {
  return page.evaluate((selector) => {
    const rows = {};
    for (const term of document.querySelectorAll(`${selector} dt`)) {
      const parts = [...term.nextElementSibling.childNodes].map((node) => node.textContent);
      rows[term.textContent] = parts.join(" ").replaceAll("\u00a0", " ");
    }
    return rows;
  }, selector);
}

// Frames a second while a pointer drags the plan about, from the first to the last redrawn frame.
export async function framesPerSecond(page, milliseconds = 1500) {
  return page.evaluate(async (milliseconds) => {
    const over = document.getElementById("over");
    const box = over.getBoundingClientRect();
    const send = (type, x, y) =>
      over.dispatchEvent(
        new PointerEvent(type, { bubbles: true, pointerId: 7, pointerType: "mouse", button: 0, buttons: 1, clientX: box.x + x, clientY: box.y + y }),
      );
    const [x, y] = [box.width / 2, box.height * 0.6];
    send("pointerdown", x, y);
    const frames = memviz.frames();
    const begun = performance.now();
    let now = begun;
    for (let n = 0; now - begun < milliseconds; n++) {
      send("pointermove", x + 220 * Math.sin(n / 15), y + 90 * Math.cos(n / 11));
      now = await new Promise((done) => requestAnimationFrame(() => done(performance.now())));
    }
    const drawn = memviz.frames() - frames;
    send("pointerup", x, y);
    return (drawn / (now - begun)) * 1000;
  }, milliseconds);
}
