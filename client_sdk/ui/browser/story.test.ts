// A user's way through the page, on an emulator with jobs as hostile as the API lets them be.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { drawn } from "./measure";
import { complaints, newPage, PATIENCE, WIDE, world, type World } from "./world";

interface Facts {
  link: string;
  longest: string;
  /** Of a job that the test submits itself. */
  request: Record<string, unknown>;
}

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const NARROW = { width: 375, height: 812 };
const MIDDLE = { width: 768, height: 1024 };

let story: World<Facts>;
let page: Page;
let said: string[];
const at = (path: string) => new URL(path, story.facts.link).href;

async function opened(options: { colorScheme?: "light" | "dark"; viewport?: typeof WIDE } = {}): Promise<Page> {
  const made = await newPage(story.browser, options);
  said = complaints(made);
  await made.goto(story.facts.link);
  await made.getByRole("heading", { name: /^main/ }).waitFor();
  return made;
}

beforeAll(async () => {
  story = await world<Facts>("story");
});
afterAll(() => story.end());
beforeEach(async () => {
  page = await opened();
});
afterEach(async () => {
  expect(said).toEqual([]);
  expect(await page.evaluate("window.pwned")).toBeUndefined();
  await page.context().close();
});

/** Do something to the job in view, through the dialog. */
async function act(name: string, value?: string) {
  await page.getByRole("button", { name, exact: true }).click();
  const dialog = page.getByRole("dialog");
  if (value !== undefined) await dialog.getByRole("textbox").fill(value);
  await dialog.getByRole("button", { name, exact: true }).click();
  await dialog.waitFor({ state: "hidden" });
}

const state = (job: string) => page.getByRole("heading", { name: new RegExp(`^${job} ${"\\w+"}`) }).locator(".state");

async function becomes(job: string, wanted: string) {
  await page.getByRole("heading", { name: `${job} ${wanted}` }).waitFor();
  expect(await state(job).textContent()).toBe(wanted);
}

test("the token leaves the address", () => expect(page.url()).toBe(at("/")));

test("a press that takes the focus from the first link is a click", async () => {
  await page.goto(at("/jobs"));
  await page.getByRole("link", { name: "waits" }).waitFor();
  await page.evaluate("document.activeElement.blur()");
  await page.keyboard.press("Tab");
  expect(await page.evaluate("document.activeElement.className")).toBe("skip");
  const link = page.getByRole("link", { name: "Settings" });
  const { x, y, width, height } = (await link.boundingBox())!;
  await page.mouse.click(x + width / 2, y + height - 2); // At its lower edge: it must not move up at all.
  await page.waitForURL(/\/settings$/);
});

/** The elements whose text is cut off. */
const cut = (selector: string): string => `[...document.querySelectorAll(${JSON.stringify(selector)})].filter((element) =>
  element.scrollWidth > element.clientWidth + 1 || element.scrollHeight > element.clientHeight + 1 || element.getBoundingClientRect().right > innerWidth)
  .map((element) => element.tagName + " " + element.textContent + [element.scrollWidth, element.clientWidth, element.scrollHeight, element.clientHeight])`;

test.each([
  ["a telephone", NARROW],
  ["a tablet", MIDDLE],
  ["a laptop", WIDE],
])("names and reasons are whole on %s", async (_, viewport) => {
  await page.setViewportSize(viewport);
  for (const view of ["/", "/jobs"]) {
    await page.goto(at(view));
    const link = page.getByRole("link", { name: story.facts.longest }).first();
    await link.waitFor();
    expect(await page.evaluate(cut("td.main, td.main a, td.why")), view).toEqual([]);
  }
  await page.goto(at("/"));
  await page.getByRole("table", { name: "The line of main" }).getByText(/ of \d/).first().waitFor();
  await page.getByLabel("In short").getByText("wait", { exact: true }).waitFor();
});

test("an unknown address says so and leads back", async () => {
  await page.goto(at("/nowhere"));
  await page.getByRole("heading", { name: "No such view" }).waitFor();
  await page.getByRole("link", { name: "To the queue" }).click();
  await page.getByRole("heading", { name: /^main/ }).waitFor();
  expect(await page.title()).toBe("Queue · SlotQ");
});

test("the timeline opens at what there is, with names", async () => {
  await page.goto(at("/timeline"));
  const drawing = page.getByRole("img", { name: /^main/ });
  await drawing.getByText("reports").waitFor();
  const part = await page.evaluate<number>(`(() => {
    const boxes = [...document.querySelectorAll("svg.lanes :is(path.starts, path.runs)")].map((bars) => bars.getBBox());
    const widest = Math.max(...boxes.map(({ width }) => width));
    return widest / document.querySelector("svg.lanes").viewBox.baseVal.width;
  })()`);
  expect(part).toBeGreaterThan(0.02); // A second of the shortest window. Of a day it would be half an hour.
});

test("the line is that of the queue, and leads to the jobs", async () => {
  const line = page.getByRole("table", { name: "The line of main" });
  await line.getByRole("link", { name: "waits" }).waitFor();
  const names = await line.getByRole("link").allTextContents();
  expect(names.slice(0, 2)).toEqual([story.facts.longest, "waits"]);
  await line.getByRole("link", { name: "waits" }).click();
  await becomes("waits", "pending");
  expect(await page.getByRole("heading", { name: "Why it waits" }).isVisible()).toBe(true);
});

test("a stranger's markup is text", async () => {
  await page.goto(at("/jobs/fails"));
  await becomes("fails", "failed");
  await page.getByText("<script>window.pwned = 1</script>").first().waitFor();
  await page.goto(at(`/jobs/${story.facts.longest}`));
  await page.getByText("The request, as it was submitted").click();
  await page.getByText("onerror=").waitFor();
  await page.goto(at(`/jobs?search=${encodeURIComponent("<script>window.pwned = 1</script>")}`));
  await page.getByText("No job fits this search.").waitFor();
  await page.goto(at(`/jobs/${encodeURIComponent("<script>window.pwned=1</script>")}`));
  await page.getByRole("heading", { level: 1 }).waitFor();
  said = said.filter((line) => !line.includes("404") && !line.includes("400")); // There is no such job.
});

test("hold, release, change the priority and cancel", async () => {
  await page.goto(at("/jobs/cancelled-soon"));
  await becomes("cancelled-soon", "pending");
  await act("Hold");
  await becomes("cancelled-soon", "held");
  await act("Release");
  await becomes("cancelled-soon", "pending");
  await act("Priority", "-7");
  await page.locator("dd", { hasText: "-7" }).waitFor();
  await act("Cancel");
  await becomes("cancelled-soon", "cancelled");
});

test("a refusal of the queue is shown in the dialog", async () => {
  await page.goto(at("/jobs/waits"));
  await page.getByRole("button", { name: "Priority", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox").fill("very urgent");
  await dialog.getByRole("button", { name: "Priority", exact: true }).click();
  await dialog.getByRole("alert").filter({ hasText: "priority" }).waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });
  said = said.filter((line) => !line.includes("400")); // The refusal itself.
});

test("a running job shows its progress, and its logs follow", async () => {
  await page.goto(at("/jobs/reports"));
  await becomes("reports", "running");
  await page.getByText(/step \d+ of 3,600 \(\d+ %\)/).waitFor();
  const logs = page.getByLabel("Logs of reports");
  await logs.filter({ hasText: "<script>window.pwned = 1</script>" }).waitFor();
  const steps = async () => ((await logs.textContent()) ?? "").match(/^step \d+/gm)!.length;
  const before = await steps();
  await expect.poll(steps, { timeout: PATIENCE }).toBeGreaterThan(before);
  const all = (await logs.textContent())!.match(/^step \d+/gm)!;
  expect(all).toEqual([...new Set(all)]);
});

test("a pasted request becomes a job", async () => {
  await page.getByRole("link", { name: "Submit" }).click();
  await page.getByLabel("From").selectOption("a pasted request");
  const field = page.getByLabel("CreateTrainingJob request, as JSON");
  await field.fill("{");
  await page.getByRole("button", { name: "Submit" }).click();
  await page.getByRole("alert").filter({ hasText: "This is no JSON" }).waitFor();
  await field.fill(JSON.stringify(story.facts.request));
  await page.getByRole("button", { name: "Submit" }).click();
  await becomes("pasted", "pending");
  await page.locator("dd", { hasText: /^3$/ }).waitFor();
});

test("a form becomes a job, once the queue has no objection", async () => {
  await page.goto(at("/submit"));
  await page.getByLabel("Name").fill("from-a-form");
  await page.getByLabel("Image").fill("train:1");
  await page.getByLabel("Role").fill(story.facts.request.RoleArn as string);
  await page.getByLabel("Priority").fill("very urgent");
  await page.getByLabel("Output").fill("s3://bucket/out");
  await page.getByRole("button", { name: "Submit" }).click();
  await page.getByRole("alert").filter({ hasText: "priority" }).waitFor();
  await page.getByLabel("Priority").fill("2");
  await page.getByRole("button", { name: "Submit" }).click();
  await becomes("from-a-form", "pending");
  said = said.filter((line) => !line.includes("400")); // The refusal itself.
});

test("the keyboard alone reaches a job", async () => {
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  expect(await page.evaluate("document.activeElement.id")).toBe("main");
  await page.getByRole("link", { name: "waits" }).focus();
  await page.keyboard.press("Enter");
  await becomes("waits", "pending");
});

test("a group is held and released as a whole", async () => {
  await page.getByRole("link", { name: "Groups", exact: true }).click();
  await page.getByRole("link", { name: "grid", exact: true }).click();
  await page.getByText("A sweep of 3 jobs, 2 at once: 3 pending.").waitFor();
  await act("Hold");
  await page.getByText("3 held.").waitFor();
  await act("Release");
  await page.getByText("3 pending.").waitFor();
});

test("a job is cloned from its page", async () => {
  await page.goto(at("/jobs/waits"));
  await act("Clone", "waits-again");
  await becomes("waits-again", "pending");
});

test("what if the pool had a slot more: the answer, the diff, and then it has", async () => {
  await page.getByRole("link", { name: "What if", exact: true }).click();
  await page.getByText("nothing starts and nothing is evicted").waitFor();
  await page.getByLabel("Slots").fill("2");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.waitForURL(/pool=main%3D2/);
  await page.getByRole("cell", { name: "starts in main" }).waitFor();
  await page.getByText("The change of the configuration, as a diff").click();
  await page.getByText("+capacity: 2").waitFor();
  await act("Apply");
  await page.getByText("The change of the configuration, as a diff").waitFor({ state: "detached" });
  await page.goto(at("/"));
  await page.getByRole("heading", { name: "main 2 slots" }).waitFor();
});

test("what cannot be is refused in words", async () => {
  await page.goto(at("/what-if?pool=nowhere%3D2"));
  await page.getByRole("alert").filter({ hasText: "nowhere" }).waitFor();
  await page.goto(at(`/what-if?priority=${encodeURIComponent("<script>window.pwned=1</script>=2")}`));
  await page.getByRole("alert").filter({ hasText: "<script>" }).waitFor();
  said = said.filter((line) => !/40[04]/.test(line)); // The refusals themselves.
});

/** Each view, with a selector that is present once the view is complete. */
const VIEWS: Record<string, string> = {
  "/what-if": "[role=status][aria-busy=false] .empty",
  "/what-if?pool=main%3D3&cancel=reports": "[role=status][aria-busy=false] .empty",
  "/groups": ".empty, tr[data-row]",
  "/groups/grid": "table",
  "/": "tr[data-row]",
  "/jobs": "tr[data-row]",
  "/jobs/waits": "h1 .state",
  "/jobs/reports": "h1 .state",
  "/jobs/fails": "h1 .state",
  "/timeline": "svg.lanes",
  "/nowhere": "h1",
  "/submit": ".fields option",
  "/submit?way=request": "textarea",
  "/projects": ".empty, h2",
  "/people": ".empty, table",
  "/settings": "#changes",
};

/** Remembers what was pressed and what was clicked, and keeps the click from doing anything. */
const WATCH = `(() => {
  const of = (event) => event.target.closest("a, button, summary");
  addEventListener("pointerdown", (event) => { window.pressed = of(event); window.clicked = undefined; }, true);
  addEventListener("click", (event) => {
    window.clicked = of(event);
    event.preventDefault();
    event.stopPropagation();
  }, true);
})()`;
const REFUSAL = { code: "unexpected", message: "The queue cannot say it now. ".repeat(12) };
const ASKED = `document.dispatchEvent(new Event("visibilitychange"))`;
const CALLS = /\/(api|own)\//;

test("what is pressed is clicked, though each view moves once its answers come", async () => {
  let pressed = 0;
  let moved = 0;
  for (const [view, ready] of Object.entries(VIEWS)) {
    await page.goto(at(view));
    await page.locator("main").locator(ready).first().waitFor({ state: "attached" });
    await page.evaluate(WATCH);
    const controls = page.locator(view === "/" ? ":is(a:not(.skip), button):visible" : "main :is(a[href], button:enabled, summary):visible");
    const most = Math.min(await controls.count(), view === "/" ? 20 : 5);
    for (let n = 0; n < most; n++) {
      await controls.nth(n).hover();
      await page.mouse.down();
      await page.route(CALLS, (route) => route.fulfill({ status: 500, json: REFUSAL }));
      const answer = page.waitForResponse((response) => response.status() === 500);
      await page.evaluate(ASKED);
      await (await answer).finished();
      for (let frames = 0; frames < 3; frames++) await drawn(page);
      await page.mouse.up();
      expect(await page.evaluate("window.clicked === window.pressed && Boolean(window.pressed)"), `${view}, control ${n}`).toBe(true);
      pressed++;
      await drawn(page);
      const said = page.locator("main > p.trouble:visible");
      if (await said.count()) moved++;
      await page.unrouteAll({ behavior: "wait" });
      await page.evaluate(ASKED);
      await said.waitFor({ state: "detached" });
    }
  }
  console.info(`${pressed} controls pressed, ${moved} times the view moved after the click`);
  expect(moved).toBeGreaterThan(pressed / 3);
  said = said.filter((line) => !line.includes("500")); // The refusals themselves.
});

// Colours do not depend on the width, nor the layout on colours: in short, each is tried once.
const SCHEMES = [
  ["light", "wide", WIDE],
  ["dark", "narrow", NARROW],
  ["dark", "wide", WIDE],
  ["light", "narrow", NARROW],
  ["light", "as a tablet", MIDDLE],
] as const;

test.each(SCHEMES.slice(0, process.env.SLOTQ_UI === "short" ? 2 : 5))("axe finds nothing in %s, %s", async (colorScheme, _, viewport) => {
  await page.context().close();
  page = await opened({ colorScheme, viewport });
  for (const [view, ready] of Object.entries(VIEWS)) {
    await page.goto(at(view));
    await page.locator("main").locator(ready).first().waitFor({ state: "attached" });
    expect(await page.title(), view).toMatch(/^.+ · SlotQ$/);
    expect(await page.getByRole("heading", { level: 1 }).count(), view).toBe(1);
    await page.evaluate(AXE);
    const found = await page.evaluate(
      "axe.run().then((r) => r.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.target).join(' ')))",
    );
    expect(found, view).toEqual([]);
    const over = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
    expect(over, `${view} is wider than the window`).toBeLessThanOrEqual(0);
  }
});
