// With 5,000 waiting jobs each interaction is drawn within 100 ms.

import { afterAll, beforeAll, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { least, LONGEST } from "./measure";
import { complaints, world, type World } from "./world";

let line: World<{ link: string; waiting: number }>;
let page: Page;
let said: string[];

beforeAll(async () => {
  line = await world("long_line");
  page = await line.browser.newPage({ viewport: { width: 1280, height: 900 } });
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

test("scrolling", async () => expect(await least(page, "scrolling", SCROLL)).toBeLessThan(LONGEST));

test("to another view and back", async () => {
  expect(await least(page, "to the jobs", go("Jobs"), go("Queue"))).toBeLessThan(LONGEST);
  expect(await least(page, "to the queue", go("Queue"), go("Jobs"))).toBeLessThan(LONGEST);
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
  expect(await least(page, "searching", TYPE)).toBeLessThan(LONGEST);
  await page.getByRole("link", { name: "train-53", exact: true }).waitFor();
  expect(await least(page, "filtering", CHOOSE)).toBeLessThan(LONGEST);
});

test("opening a job", async () => {
  const open = `() => document.querySelector("tr[data-row] a").click()`;
  expect(await least(page, "opening a job", open, go("Queue"))).toBeLessThan(LONGEST);
});

test("new answers while one looks at the line", async () => {
  await page.goto(line.facts.link);
  await page.getByRole("link", { name: "train-1", exact: true }).waitFor();
  const longest = await page.evaluate<number>(`new Promise((found) => {
    let most = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) most = Math.max(most, entry.duration);
    }).observe({ type: "longtask" });
    setTimeout(() => found(most), 8000);
  })`);
  console.info(`the longest task while answers come: ${longest.toFixed(0)} ms`);
  expect(longest).toBeLessThan(LONGEST);
});
