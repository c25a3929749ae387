import { cleanup, fireEvent, render, screen, within } from "@testing-library/preact";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { AttemptsPage, HeldSlots } from "../src/api";
import { DAY, drawing, fitted, forWhom, inWords, lanesOf, moved, ticks, under, zoomed } from "../src/timeline";
import { PATIENCE } from "./setup";
import { Timeline } from "../src/views/timeline";

const HOUR = DAY / 24;
const BEGIN = Date.parse("2026-11-20T00:00:00Z");
const at = (hours: number) => new Date(BEGIN + hours * HOUR).toISOString();
const DAY_LONG = { from: BEGIN, to: BEGIN + DAY };

const attempt = (job: string, from: number, to: number | null, fields: Partial<HeldSlots> = {}): HeldSlots => ({
  job,
  number: 1,
  project: "vision",
  submitter: "arn:aws:iam::1:user/ada",
  workload: "training",
  pool: "p5",
  instance_type: "ml.p5.48xlarge",
  slots: 1,
  parts: {},
  part_of_slot: [],
  admitted_at: at(from),
  running_since: at(from),
  ended_at: to === null ? null : at(to),
  kind: "on_demand",
  outcome: to === null ? null : "completed",
  evicted: null,
  ...fields,
});
const evicted = (job: string, from: number, to: number, by: Partial<NonNullable<HeldSlots["evicted"]>> = {}) =>
  attempt(job, from, to, {
    outcome: "evicted",
    evicted: { job: "urgent", project: "speech", submitter: "", workload: "", lost_since: at(from), lost_at_most: false, ...by },
  });
const page = (attempts: HeldSlots[], fields: Partial<AttemptsPage> = {}): AttemptsPage => ({
  version: 1,
  start: at(0),
  end: at(24),
  as_of: at(24),
  attempts,
  gone: 0,
  unreadable: 0,
  next: null,
  settled: null,
  ...fields,
});

/** Answers in turn, the last again and again; returns the addresses that were asked for. */
const answers = (...said: AttemptsPage[]): string[] => {
  const asked: string[] = [];
  vi.stubGlobal("fetch", async (address: string) => {
    asked.push(address);
    return new Response(JSON.stringify(said[Math.min(asked.length, said.length) - 1]));
  });
  return asked;
};

beforeEach(() => history.replaceState(null, "", `/timeline?from=${at(0)}&to=${at(24)}`));
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const span = () => {
  const query = new URLSearchParams(location.search);
  return [query.get("from"), query.get("to")];
};

test("attempts that overlap have lanes of their own", () => {
  const [pool] = lanesOf([attempt("a", 0, 2), attempt("b", 1, 3), attempt("c", 2, 4), attempt("d", 3, null)], BEGIN + DAY);
  expect(pool!.held.map((bar) => bar.lane)).toEqual([0, 1, 0, 1]);
  expect(pool!.held[3]!.end).toBe(BEGIN + DAY);
});

test("spot and warm time are drawn and named apart", async () => {
  const held = [attempt("a", 0, 2, { kind: "spot" }), attempt("a", 2, 4, { kind: "warm", outcome: "warm" }), attempt("b", 4, 6)];
  const [pool] = lanesOf(held, BEGIN + DAY);
  const drawn = drawing(pool!, DAY_LONG, 960);
  expect([drawn.spot, drawn.warm, drawn.runs].map((path) => path.split("M")[1]!.split(" ")[0])).toEqual(["0", "80", "160"]);
  expect(drawn.names.map((mark) => mark.text)).toEqual(["a", "b"]);
  expect(inWords(held[0]!, 0)).toContain("1 slot on spot for 2 h");
  expect(inWords(held[1]!, 0)).toContain("1 slot warm for 2 h after attempt 1");
  answers(page(held));
  render(<Timeline />);
  await screen.findByText("runs on spot");
  screen.getByText("stays warm for the next job");
});

test("an attempt on a node holds GPUs, not a slot", () => {
  expect(inWords(attempt("a", 0, 2, { part_of_slot: [1, 8] }), 0)).toContain("1 of 8 GPUs for 2 h");
  expect(inWords(attempt("a", 0, 2, { part_of_slot: [0.25, 8] }), 0)).toContain("0.25 of 8 GPUs for 2 h");
  expect(inWords(attempt("a", 0, 2), 0)).toContain("1 slot for 2 h");
});

test("pools are apart, in order", () => {
  const found = lanesOf([attempt("a", 0, 2), attempt("b", 0, 2, { pool: "p4" })], 0);
  expect(found.map(({ pool, lanes }) => [pool, lanes])).toEqual([
    ["p4", 1],
    ["p5", 1],
  ]);
});

test("a job over several pools is in each of them, in a lane of its own there", () => {
  const found = lanesOf([attempt("a", 0, 2), attempt("wide", 1, 3, { parts: { p4: 2, p5: 1 } })], 0);
  expect(found.map(({ pool, held }) => [pool, ...held.map((bar) => `${bar.of.job} ${bar.lane}`)])).toEqual([
    ["p4", "wide 0"],
    ["p5", "a 0", "wide 1"],
  ]);
});

test("a bar is where its time is, pale until it runs", () => {
  const [pool] = lanesOf([attempt("a", 6, 18, { running_since: at(12) })], 0);
  const drawn = drawing(pool!, DAY_LONG, 240);
  expect(drawn.starts).toMatch(/^M60 2h60v/);
  expect(drawn.runs).toMatch(/^M120 2h60v/);
});

test("a name is on one shade of its bar", () => {
  const names = (running: number, to = 18) =>
    drawing(lanesOf([attempt("job-name", 6, to, { running_since: at(running) })], 0)[0]!, DAY_LONG, 2400).names;
  expect(names(6)).toEqual([{ x: 604, y: 15, text: "job-name", pale: false }]);
  expect(names(12)).toEqual([{ x: 604, y: 15, text: "job-name", pale: true }]);
  expect(names(6.3)).toEqual([{ x: 634, y: 15, text: "job-name", pale: false }]);
  expect(names(6.3, 6.7)).toEqual([{ x: 673, y: 15, text: "job-name", beside: "name" }]);
});

/** The words beside bars, and where they are in a window 800 points wide. */
const words = (...attempts: HeldSlots[]) =>
  drawing(lanesOf(attempts, 0)[0]!, DAY_LONG, 800).names.map(({ x, text, beside, ends }) => [text, Math.round(x), beside, ends]);

test("a name without room in its bar is behind it, or before it, or is cut in its middle", () => {
  const name = "resnet50-seed-17"; // 112 points
  expect(words(attempt(name, 0, 1))).toEqual([[name, 36, "name", undefined]]);
  expect(words(attempt(name, 22, 24))).toEqual([[name, 730, "name", true]]);
  expect(words(attempt("a", 0, 2), attempt(name, 2, 4.5), attempt("b", 4.5, 9)).map(([text]) => text)).toEqual(["a", "res…eed-17", "b"]);
  expect(words(attempt("a", 0, 2), attempt(name, 2, 3), attempt("b", 3, 9)).map(([text]) => text)).toEqual(["a", "b"]);
});

test("a text behind a bar is not covered by the name before the next", () => {
  const name = "resnet50-seed-17";
  expect(words(evicted("a", 0, 0.1), attempt(name, 8, 9), attempt("b", 9, 24)).map(([text]) => text)).toEqual(["a, evicted for urgent", "b"]);
  expect(words(evicted("a", 0, 0.1), attempt(name, 10.5, 11), attempt("b", 11, 24)).map(([text]) => text)).toEqual(["a, evicted for urgent", name, "b"]);
});

const fit = (attempts: HeldSlots[], now: number) => {
  const { from, to } = fitted(lanesOf(attempts, now), now);
  return [from, to].map((moment) => (moment - BEGIN) / HOUR);
};

test("without a window of its own it shows what there is, of the last day", () => {
  const now = BEGIN + DAY;
  expect(fit([], now)).toEqual([0, 24]);
  expect(fit([attempt("a", 14, 15), attempt("b", 19, null)], now)).toEqual([13.8, 24]);
  expect(fit([attempt("a", 14, 15), attempt("b", 15, 19)], now), "nothing goes on").toEqual([13.9, 19.1]);
  expect(fit([attempt("a", -9, null)], now), "it began before").toEqual([0, 24]);
  const [from, to] = fit([attempt("a", 24 - 5 / 3600, null)], now);
  expect([to, Math.round((to! - from!) * 3600)], "a minute at least").toEqual([24, 60]);
});

test("bars narrower than a point are drawn together", () => {
  const many = Array.from({ length: 5000 }, (_, n) => attempt(`job${n}`, n / 500, (n + 1) / 500));
  const [pool] = lanesOf(many, 0);
  expect(pool!.lanes).toBe(1);
  expect(drawing(pool!, DAY_LONG, 240).shapes).toBe(100);
  const near = drawing(pool!, { from: BEGIN, to: BEGIN + HOUR / 50 }, 240);
  expect(near.shapes).toBe(10);
});

test("a narrow bar that was evicted keeps its mark", () => {
  const [pool] = lanesOf([attempt("a", 0, 0.001), evicted("b", 0.001, 0.002)], 0);
  const drawn = drawing(pool!, DAY_LONG, 240);
  expect([drawn.evicted.match(/M/g)!.length, drawn.names.map(({ text }) => text)]).toEqual([1, ["b, evicted for urgent"]]);
});

test("a label does not cover the bar that follows", () => {
  const texts = (...attempts: HeldSlots[]) => words(...attempts).map(([text]) => text);
  expect(words(evicted("a", 0, 6), attempt("b", 6, 9))).toContainEqual(["evicted for urgent", 65, undefined, undefined]);
  expect(texts(evicted("a", 0, 3), attempt("b", 3, 9))).toContain("for urgent");
  expect(texts(evicted("a", 0, 2), attempt("b", 3, 9))).toEqual(["a", "b"]);
  expect(words(evicted("a", 0, 2), attempt("b", 20, 21))).toContainEqual(["evicted for urgent", 70, "eviction", undefined]);
});

test("what is outside the window is not drawn", () => {
  const [pool] = lanesOf([evicted("a", -9, -1), attempt("b", 25, 26), evicted("c", 20, 30)], 0);
  const drawn = drawing(pool!, DAY_LONG, 240);
  expect([drawn.shapes, drawn.evicted]).toEqual([1, ""]);
});

test("drawing looks at each of 5,000 attempts a few times", () => {
  let looks = 0;
  const many = Array.from({ length: 5000 }, (_, n) => (n % 10 ? attempt : evicted)(`job${n}`, (n % 97) / 5, (n % 97) / 5 + (n % 13) / 3));
  const watched = many.map((attempt) => new Proxy(attempt, { get: (of, key) => (looks++, Reflect.get(of, key) as unknown) }));
  for (const pool of lanesOf(watched, 0)) expect(drawing(pool, DAY_LONG, 1200).shapes).toBeGreaterThan(0);
  expect(looks).toBeLessThan(30 * many.length); // browser/timeline.test.ts counts all that an interaction does.
});

test("zooming keeps the middle, and the present where the window ends there", () => {
  const now = BEGIN + 2 * DAY;
  expect(zoomed(DAY_LONG, 0.5, now)).toEqual({ from: BEGIN + DAY / 4, to: BEGIN + (3 * DAY) / 4 });
  expect(zoomed({ from: now - DAY, to: now }, 0.5, now)).toEqual({ from: now - DAY / 2, to: now });
  expect(zoomed(DAY_LONG, 100, now).to).toBe(now);
  let least = DAY_LONG;
  let most = DAY_LONG;
  for (let n = 0; n < 40; n++) [least, most] = [zoomed(least, 0.5, now), zoomed(most, 2, now)];
  expect([least.to - least.from, most.to - most.from]).toEqual([60_000, 366 * DAY]);
});

test("the window never goes beyond the present", () => {
  expect(moved(DAY_LONG, 0.5, BEGIN + 2 * DAY)).toEqual({ from: BEGIN + DAY / 2, to: BEGIN + 1.5 * DAY });
  expect(moved(DAY_LONG, 0.5, BEGIN + DAY)).toEqual(DAY_LONG);
});

test.each([60_000, HOUR, DAY, 7 * DAY, 90 * DAY, 366 * DAY])("a window of %d ms has a few moments with room", (length) => {
  const found = ticks({ from: BEGIN + 12_345, to: BEGIN + 12_345 + length }, 1000);
  expect(found.length).toBeGreaterThan(0);
  expect(found.length).toBeLessThan(15);
  for (const [n, tick] of found.entries()) if (n) expect(tick.x - found[n - 1]!.x).toBeGreaterThan(60);
});

test("the attempt under the pointer is found", () => {
  const [pool] = lanesOf([attempt("a", 0, 12), attempt("b", 6, 24)], 0);
  expect(under(pool!, DAY_LONG, 240, 22, 60, 10)?.job).toBe("a");
  expect(under(pool!, DAY_LONG, 240, 22, 200, 30)?.job).toBe("b");
  expect(under(pool!, DAY_LONG, 240, 22, 200, 10)).toBeUndefined();
});

test("an eviction is shown as far as the caller may know", () => {
  expect(forWhom(evicted("a", 0, 1))).toBe("evicted for urgent");
  expect(forWhom(evicted("a", 0, 1, { job: "" }))).toBe("evicted for a job of speech");
  expect(forWhom(evicted("a", 0, 1, { job: "", project: "" }))).toBe("evicted");
  expect(inWords(attempt("", 0, 1, { submitter: "", outcome: null }), 0)).toBe(
    "a job of others (vision), attempt 1: 1 slot for 1 h; ended",
  );
});

test("an eviction is a mark, and a row with both sides", async () => {
  answers(page([evicted("victim", 1, 6), attempt("urgent", 6, null)]));
  render(<Timeline />);
  const table = await screen.findByRole("table", { name: "Evictions" });
  expect(within(table).getByRole("link", { name: "victim" }).getAttribute("href")).toBe("/jobs/victim");
  expect(within(table).getByRole("link", { name: "urgent" }).getAttribute("href")).toBe("/jobs/urgent");
  expect(screen.getByRole("img", { name: "p5: 2 attempts, 1 eviction" })).toBeTruthy();
  expect(screen.getByText("evicted for urgent")).toBeTruthy();
});

test("a stranger's markup is text", async () => {
  const markup = "<img src=x onerror=alert(1)>";
  answers(page([attempt("a", 0, 9, { project: markup }), evicted("b", 0, 5, { job: markup })]));
  render(<Timeline />);
  await screen.findByText(`evicted for ${markup}`);
  expect(document.querySelector("img")).toBeNull();
});

test("the keyboard zooms and moves, and the address follows", async () => {
  answers(page([attempt("a", 0, 9)]));
  render(<Timeline />);
  const chart = screen.getByRole("group", { name: /^Timeline:/ });
  await screen.findByRole("img", { name: "p5: 1 attempt, 0 evictions" });
  fireEvent.keyDown(chart, { key: "+" });
  expect(span()).toEqual([at(6), at(18)]);
  fireEvent.keyDown(chart, { key: "ArrowLeft" });
  expect(span()).toEqual([at(3), at(15)]);
  fireEvent.keyDown(chart, { key: "-" });
  expect(span()).toEqual([at(-3), at(21)]);
  fireEvent.keyDown(chart, { key: "-", ctrlKey: true }); // The browser's own zoom.
  expect(span()).toEqual([at(-3), at(21)]);
});

test("a length and a pool are chosen, and are in the address", async () => {
  const asked = answers(page([attempt("a", 0, 9)]));
  render(<Timeline />);
  await screen.findByRole("option", { name: "p5" });
  fireEvent.change(screen.getByLabelText("Length"), { target: { value: "an hour" } });
  expect(span()).toEqual([at(11.5), at(12.5)]);
  fireEvent.change(screen.getByLabelText("Pool"), { target: { value: "p5" } });
  expect(location.search).toContain("pool=p5");
  await vi.waitFor(() => expect(asked.at(-1)).toContain("pool=p5"), PATIENCE);
});

test("it opens at what there is, and comes back to that", async () => {
  history.replaceState(null, "", "/timeline");
  const ago = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString();
  answers(page([attempt("a", 0, 0, { admitted_at: ago(50), running_since: ago(50), ended_at: null })], { as_of: ago(0) }));
  render(<Timeline />);
  await screen.findByRole("option", { name: /^5[01] min/ });
  fireEvent.change(screen.getByLabelText("Length"), { target: { value: "a day" } });
  expect(span()[0]).not.toBeNull();
  fireEvent.click(screen.getByRole("button", { name: "Fit" }));
  expect(span()).toEqual([null, null]);
});

test("nonsense in the address is the last day", async () => {
  history.replaceState(null, "", "/timeline?from=nonsense&to=%3Cscript%3E");
  const asked = answers(page([]));
  render(<Timeline />);
  await screen.findByText("No attempt held slots in this window.");
  expect(asked[0]).toBe("/api/attempts");
});

test("the table has all of it in words", async () => {
  answers(page([attempt("a", 0, null), evicted("b", 0, 5)], { gone: 7 }));
  render(<Timeline />);
  await screen.findByText(/^7 attempts ended then or later/);
  const details = screen.getByText("As a table").closest("details")!;
  expect(screen.queryByRole("table", { name: "Attempts" })).toBeNull();
  details.open = true;
  fireEvent(details, new Event("toggle"));
  const table = await screen.findByRole("table", { name: "Attempts" });
  expect(within(table).getByText("goes on")).toBeTruthy();
  expect(within(table).getByText("evicted for urgent")).toBeTruthy();
});

test("a line leads from an evicted bar to the job that came instead", async () => {
  answers(page([evicted("victim", 1, 6), attempt("urgent", 6.5, null)]));
  render(<Timeline />);
  await screen.findByRole("img", { name: "p5: 2 attempts, 1 eviction" });
  expect(document.querySelector(".lanes .line")!.getAttribute("d")).toMatch(/^M200 11C.* 216.7 11m/);
});

test("the keyboard walks from bar to bar, says each, and opens the job", async () => {
  answers(page([attempt("a", 0, 5), evicted("b", 2, 9), attempt("c", 6, 9), attempt("", 12, 15), attempt("old", -9, -1)]));
  render(<Timeline />);
  await screen.findByRole("img", { name: /^p5/ });
  const now = () => document.activeElement?.getAttribute("aria-label") ?? "";
  const bars = () => document.querySelectorAll<HTMLElement>(".bar-walk a");
  expect(bars().length, "one bar is in the order of Tab").toBe(1);
  bars()[0]!.focus();
  const press = (key: string) => fireEvent.keyDown(document.activeElement!, { key });
  expect(now()).toMatch(/^a /);
  await vi.waitFor(() => expect(document.querySelector(".pointed")!.textContent).toBe(now()), PATIENCE);
  press("ArrowRight");
  expect(now()).toMatch(/^c /);
  press("ArrowDown");
  expect(now()).toMatch(/^b .*evicted for urgent$/);
  expect(document.activeElement!.getAttribute("href")).toBe("/jobs/b");
  press("ArrowDown");
  expect(now(), "there is no lane below").toMatch(/^b /);
  press("ArrowUp");
  press("End");
  expect(now()).toMatch(/^b /);
  press("Home");
  press("ArrowRight");
  press("ArrowRight");
  expect(now()).toMatch(/^a job of others/);
  expect(document.activeElement!.getAttribute("href")).toBeNull();
  expect(span(), "the window has not moved").toEqual([at(0), at(24)]);
  expect(bars().length).toBe(1);
  press("ArrowLeft");
  fireEvent.click(document.activeElement!);
  expect(location.pathname).toBe("/jobs/c");
});

test("a bar keeps the keyboard when a new answer comes", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  history.replaceState(null, "", `/timeline?from=${at(0)}`);
  const asked = answers(page([attempt("a", 0, 5), attempt("b", 6, null)]), page([attempt("a", 0, 5), attempt("b", 6, 7)]));
  render(<Timeline />);
  await vi.waitFor(() => expect(document.querySelector(".bar-walk a")).toBeTruthy(), PATIENCE);
  document.querySelector<HTMLElement>(".bar-walk a")!.focus();
  fireEvent.keyDown(document.activeElement!, { key: "ArrowRight" });
  const before = document.activeElement;
  expect(before!.getAttribute("aria-label")).toMatch(/^b .*goes on$/);
  await vi.advanceTimersByTimeAsync(15_000);
  await vi.waitFor(() => expect(before!.getAttribute("aria-label")).toMatch(/^b .*completed$/), PATIENCE);
  expect([asked.length, document.activeElement === before]).toEqual([2, true]);
  vi.useRealTimers();
});
