// With 5,000 waiting jobs the cost of an interaction is bounded, and each click takes effect.

import { afterAll, beforeAll, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { counted, drawn, work } from "./measure";
import { complaints, newPage, world, type World } from "./world";

/** The most blocks of the page's program that an interaction may enter: 20 for each job. */
const MOST = 100_000;

let line: World<{ link: string; waiting: number }>;
let page: Page;
let said: string[];

beforeAll(async () => {
  line = await world("long_line");
  page = await newPage(line.browser);
  said = complaints(page);
  await page.goto(line.facts.link);
  await page.getByText(`${line.facts.waiting.toLocaleString("en")} jobs`).waitFor();
});
afterAll(async () => {
  expect(said).toEqual([]);
  await line.end();
});

const SCROLL = "(n) => scrollTo(0, 20000 * (n + 1))";
const TYPE = `(n) => {
  const field = document.querySelector("input[type=search]");
  field.value = "train-" + (49 + n);
  field.dispatchEvent(new Event("input", { bubbles: true }));
}`;
const CHOOSE = `(n) => {
  const field = document.querySelector("select");
  field.selectedIndex = 1 + (n % 2);
  field.dispatchEvent(new Event("change", { bubbles: true }));
}`;
const go = (name: string) =>
  `() => [...document.querySelectorAll("nav a")].find((a) => a.textContent === "${name}").click()`;

test("only the rows in sight are drawn", async () => {
  expect(await page.locator("tr[data-row]").count()).toBeLessThan(150);
  await page.evaluate("scrollTo(0, document.body.scrollHeight)");
  await page.getByRole("link", { name: `train-${line.facts.waiting}`, exact: true }).waitFor();
});

test("scrolling", async () => {
  expect(await work(page, "scrolling", { does: SCROLL })).toBeLessThan(MOST);
});

test("to another view and back", async () => {
  const rows = "tr[data-row]";
  expect(await work(page, "to the jobs", { does: go("Jobs"), before: go("Queue"), ready: rows })).toBeLessThan(MOST);
  expect(await work(page, "to the queue", { does: go("Queue"), before: go("Jobs"), ready: rows })).toBeLessThan(MOST);
});

test("all pages of the list, then searching and filtering", async () => {
  await page.getByRole("link", { name: "Jobs", exact: true }).click();
  await page.getByRole("link", { name: "train-1", exact: true }).waitFor();
  for (let pages = 1; pages <= 5; pages++) {
    await page.getByText(`Shown are the first ${pages},000 jobs`).waitFor();
    await page.getByRole("button", { name: "Show more" }).click();
  }
  await page.getByText("Shown are the first").waitFor({ state: "detached" });
  expect(await page.getByRole("table", { name: "Jobs" }).getAttribute("aria-rowcount")).toBe("5002");
  expect(await work(page, "searching", { does: TYPE })).toBeLessThan(MOST);
  await page.getByRole("link", { name: "train-50", exact: true }).waitFor();
  expect(await work(page, "filtering", { does: CHOOSE })).toBeLessThan(MOST);
});

test("opening a job", async () => {
  const open = `() => document.querySelector("tr[data-row] a").click()`;
  expect(await work(page, "opening a job", { does: open, before: go("Queue"), ready: "tr[data-row] a" })).toBeLessThan(MOST);
});

/** Have the page ask now, as when somebody comes back to it. Resolves once the line has been answered. */
async function asked(): Promise<void> {
  const answer = page.waitForResponse((response) => response.url().includes("/api/jobs"));
  await page.evaluate(`document.dispatchEvent(new Event("visibilitychange"))`);
  await (await answer).finished();
  for (let frames = 0; frames < 3; frames++) await drawn(page);
}

test("new answers while one looks at the line", async () => {
  await page.goto(line.facts.link);
  await page.getByRole("link", { name: "train-1", exact: true }).waitFor();
  const blocks = await counted(page, asked);
  console.info(`an answer that comes: ${blocks.toLocaleString("en")} blocks`);
  expect(blocks).toBeGreaterThan(0);
  expect(blocks).toBeLessThan(MOST);
});

test("a press and a release are a click, whatever comes between them", async () => {
  const link = page.getByRole("link", { name: "train-3", exact: true });
  await page.goto(line.facts.link);
  await link.hover();
  await page.mouse.down();
  await page.route("**/api/jobs?*", async (route) => {
    const response = await route.fetch();
    const { jobs, ...rest } = (await response.json()) as { jobs: { name: string }[] };
    await route.fulfill({ response, json: { ...rest, jobs: jobs.filter(({ name }) => name !== "train-3") } });
  });
  await asked();
  await page.mouse.up();
  await page.waitForURL(/\/jobs\/train-3$/);
  await page.getByRole("link", { name: "Queue" }).click();
  await link.waitFor({ state: "detached" });
  await page.unrouteAll({ behavior: "wait" }); // A question may be under way.
});
