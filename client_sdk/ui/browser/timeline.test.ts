// The timeline of 5,000 attempts: the cost of an interaction is bounded, and each click takes effect.

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { drawn, work } from "./measure";
import { complaints, newPage, world, type World } from "./world";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The most blocks of the page's program that an interaction may enter: 60 for each attempt. */
const MOST = 300_000;

let many: World<{ link: string; attempts: number }>;
let page: Page;
let said: string[];

beforeAll(async () => {
  many = await world("many_attempts");
  page = await newPage(many.browser);
  said = complaints(page);
  await page.goto(many.facts.link);
  await page.getByRole("img", { name: `p4: ${(many.facts.attempts / 2).toLocaleString("en")} attempts` }).waitFor();
});
afterAll(async () => {
  expect(said).toEqual([]);
  await many.end();
});

const press = (name: string) =>
  `() => [...document.querySelectorAll("main button")].find((button) => button.textContent === "${name}").click()`;
const key = (name: string) =>
  `() => document.querySelector(".chart").dispatchEvent(new KeyboardEvent("keydown", { key: "${name}", bubbles: true }))`;
const POINT = `(n) => {
  const lanes = document.querySelector("svg.lanes");
  const box = lanes.getBoundingClientRect();
  const at = { clientX: box.left + 100 + 50 * n, clientY: box.top + 8, bubbles: true };
  lanes.dispatchEvent(new PointerEvent("pointermove", at));
}`;

test("a pool is a few shapes", async () => {
  expect(await page.locator("svg.lanes *").count()).toBeLessThan(700);
});

test("zooming by buttons", async () => {
  expect(await work(page, "zooming in", { does: press("Zoom in"), before: press("Zoom out") })).toBeLessThan(MOST);
  expect(await work(page, "zooming out", { does: press("Zoom out"), before: press("Zoom in") })).toBeLessThan(MOST);
});

test("moving and zooming by keys", async () => {
  expect(await work(page, "moving", { does: key("ArrowLeft"), before: key("ArrowRight") })).toBeLessThan(MOST);
  expect(await work(page, "zooming in", { does: key("+"), before: key("-") })).toBeLessThan(MOST);
});

test("pointing at an attempt", async () => {
  expect(await work(page, "pointing", { does: POINT })).toBeLessThan(MOST);
});

test("opening the table", async () => {
  const toggle = `() => document.querySelector("summary").click()`;
  const shut = `() => { document.querySelector("details").open = false; }`;
  expect(await work(page, "opening the table", { does: toggle, before: shut, ready: "details:not([open])" })).toBeLessThan(MOST);
});

test("the keyboard alone reaches minutes and months", async () => {
  const chart = page.getByRole("group", { name: /^Timeline:/ });
  await chart.focus();
  const length = async () => {
    const query = new URL(page.url()).searchParams;
    return (Date.parse(query.get("to") ?? "") || Date.now()) - Date.parse(query.get("from")!);
  };
  for (let n = 0; n < 16; n++) await page.keyboard.press("+");
  expect(await length()).toBe(60_000);
  for (let n = 0; n < 24; n++) await page.keyboard.press("-");
  expect(Math.abs((await length()) - 366 * 86_400_000)).toBeLessThan(60_000); // The present goes on.
});

test("walking from bar to bar", async () => {
  await page.goto(many.facts.link);
  await page.getByRole("img", { name: /^p4/ }).waitFor();
  await page.evaluate(`document.querySelector(".bar-walk a").focus()`);
  const walk = (key: string) =>
    `() => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "${key}", bubbles: true, cancelable: true }))`;
  expect(await work(page, "to the next bar", { does: walk("ArrowRight"), before: walk("ArrowLeft") })).toBeLessThan(MOST);
});

test("Tab, arrows and Enter lead to a job", async () => {
  await page.getByRole("group", { name: /^Timeline:/ }).focus();
  await page.keyboard.press("Tab");
  const label = () => page.evaluate<string>("document.activeElement.getAttribute('aria-label')");
  const first = await label();
  expect(first).toMatch(/^train-\d+ \(ada, vision\), attempt 1/);
  await page.keyboard.press("ArrowRight");
  const second = await label();
  expect(second).not.toBe(first);
  expect(await page.locator(".pointed").textContent()).toBe(second);
  await page.keyboard.press("ArrowLeft");
  expect(await label()).toBe(first);
  await page.keyboard.press("Tab");
  expect(await label(), "one bar of each pool is in the order of Tab").not.toMatch(/^train-\d*[02468] /);
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/jobs\/train-\d*[13579]$/);
});

/** Where the last thing of the page is, from its top. */
const end = (looked: Page): Promise<number> =>
  looked.evaluate(`document.querySelector("summary").getBoundingClientRect().top + scrollY`);

async function opened(viewport: { width: number; height: number }): Promise<Page> {
  const looked = await newPage(many.browser, { viewport });
  await looked.goto(many.facts.link);
  await looked.getByRole("img", { name: /^p4/ }).waitFor();
  await looked.waitForSelector("tr[data-row]");
  await drawn(looked);
  return looked;
}

test.each([390, 1280])("scrolling moves nothing, %d points wide", async (width) => {
  const looked = await opened({ width, height: 844 });
  const before = await end(looked);
  const rows = await looked.getByRole("table", { name: "Evictions" }).getAttribute("aria-rowcount");
  await looked.evaluate("scrollTo(0, document.body.scrollHeight)");
  await looked.waitForSelector(`tr[aria-rowindex="${rows}"]`);
  await drawn(looked);
  expect(await end(looked)).toBeCloseTo(before, 0);
  await looked.context().close();
});

test.each([320, 390, 440, 620, 1280])("pointing at a bar moves nothing, %d points wide", async (width) => {
  const looked = await opened({ width, height: 844 });
  const before = await end(looked);
  const text = () => looked.locator(".pointed").textContent();
  const nothing = await text();
  await looked.evaluate(`document.querySelector(".bar-walk a").focus()`);
  await expect.poll(text).not.toBe(nothing);
  expect(await end(looked)).toBe(before);
  await looked.evaluate("document.activeElement.blur()");
  await expect.poll(text).toBe(nothing);
  expect(await end(looked)).toBe(before);
  await looked.context().close();
});

/** Pictures to be looked at, of the whole day and of a part of it. */
async function shoot(looked: Page, folder: string, name: string) {
  mkdirSync(folder, { recursive: true });
  await looked.screenshot({ path: `${folder}/day-${name}.png` });
  const address = looked.url();
  const near = new URL(address);
  near.search = "from=2026-11-20T09:00:00.000Z&to=2026-11-20T09:25:00.000Z";
  await looked.goto(near.href);
  await looked.getByRole("img", { name: /^p4/ }).waitFor();
  await looked.evaluate(`document.querySelector(".bar-walk a").focus()`);
  await looked.screenshot({ path: `${folder}/near-${name}.png` });
  await looked.goto(address);
  await looked.getByRole("img", { name: /^p4/ }).waitFor();
}

test.each([
  ["light", 1280],
  ["dark", 1280],
  ["light", 390],
  ["dark", 390],
] as const)("axe finds nothing in %s, %d points wide", async (colorScheme, width) => {
  const looked = await newPage(many.browser, { viewport: { width, height: 844 }, colorScheme });
  const complained = complaints(looked);
  await looked.goto(many.facts.link);
  await looked.getByRole("img", { name: /^p4/ }).waitFor();
  await looked.evaluate(`document.querySelector(".bar-walk a").focus()`);
  if (process.env.SHOTS) await shoot(looked, process.env.SHOTS, `${colorScheme}-${width}`);
  await looked.getByText("As a table").click();
  await looked.getByRole("table", { name: "Attempts" }).waitFor();
  await looked.evaluate(AXE);
  const found = await looked.evaluate(
    "axe.run().then((r) => r.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.target).join(' ')))",
  );
  expect(found).toEqual([]);
  expect(await looked.evaluate("document.documentElement.scrollWidth - innerWidth")).toBeLessThanOrEqual(0);
  expect(complained).toEqual([]);
  await looked.context().close();
});
