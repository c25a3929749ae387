import { cleanup, fireEvent, render, screen } from "@testing-library/preact";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Job } from "../src/api";
import { jobsIn } from "../src/listed";
import { PATIENCE } from "./setup";
import { Jobs } from "../src/views/jobs";

const job = (name: string, state = "pending"): Job =>
  ({ name, state, pools: ["p5"], priority: 0, demand: { slots: 1 }, user: "ada", submitter: "ada", project: "", changed_at: "2026-11-20T00:00:00Z" }) as unknown as Job;

/** A queue with these jobs that returns `least` of them at once, or as many as requested; records the requests. */
function queue(jobs: Job[], least = Infinity): URLSearchParams[] {
  const asked: URLSearchParams[] = [];
  vi.stubGlobal("fetch", async (address: string) => {
    const query = new URL(address, "http://localhost").searchParams;
    asked.push(query);
    const begin = Number(query.get("next") ?? 0);
    const end = begin + Math.min(Number(query.get("limit")), least);
    const more = end < jobs.length;
    return new Response(JSON.stringify({ jobs: jobs.slice(begin, end), more, next: more ? String(end) : null }));
  });
  return asked;
}

const many = (number: number): Job[] => Array.from({ length: number }, (_, n) => job(`job-${n}`));
const all = (asked: Record<string, string>, most: number) => jobsIn(asked, most, new AbortController().signal);

beforeEach(() => history.replaceState(null, "", "/jobs?pool=p5"));
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

test("pages are followed up to what is wanted, with the filters of the first", async () => {
  const asked = queue(many(2500));
  const found = await all({ pool: "p5" }, 2000);
  expect([found.jobs.length, found.more]).toEqual([2000, true]);
  expect(asked.map((query) => [query.get("limit"), query.get("next"), query.get("pool")])).toEqual([
    ["1000", null, "p5"],
    ["1000", "1000", "p5"],
  ]);
  expect((await all({}, 3000)).more).toBe(false);
});

test("where filters fit few jobs, an answer has few, and costs no more requests", async () => {
  const asked = queue(many(100), 1);
  const found = await all({}, 3000);
  expect([found.jobs.length, found.more, asked.length]).toEqual([3, true, 3]);
});

test("a job on two pages is shown in its latest state", async () => {
  queue([job("a", "running"), job("b"), job("a", "completed")], 2);
  expect((await all({}, 2000)).jobs.map(({ name, state }) => [name, state])).toEqual([
    ["b", "pending"],
    ["a", "completed"],
  ]);
});

test("show more adds the next jobs, and goes when there are none", async () => {
  const asked = queue(many(1500));
  render(<Jobs />);
  await screen.findByRole("table", { name: "Jobs" });
  expect(screen.getByRole("status").textContent).toMatch(/^Shown are the first 1,000 jobs/);
  fireEvent.click(screen.getByRole("button", { name: "Show more" }));
  expect(screen.getByRole("button", { name: "Loading …" }).hasAttribute("disabled")).toBe(true);
  expect(screen.getByRole("table", { name: "Jobs" }), "what is known stays").toBeTruthy();
  await vi.waitFor(() => expect(screen.getByRole("table", { name: "Jobs" }).getAttribute("aria-rowcount")).toBe("1501"), PATIENCE);
  expect(screen.queryByRole("button", { name: "Show more" })).toBeNull();
  expect(asked.every((query) => query.get("pool") === "p5")).toBe(true);
});

test("a search says that it has not searched every job, and goes on", async () => {
  history.replaceState(null, "", "/jobs?search=job-1400");
  queue(many(1500));
  render(<Jobs />);
  await screen.findByText("None of these jobs fits this search.");
  expect(screen.getByRole("status").textContent).toMatch(/^Searched are the first 1,000 jobs; the queue may have more/);
  fireEvent.click(screen.getByRole("button", { name: "Show more" }));
  await screen.findByRole("link", { name: "job-1400" });
});

test("another filter begins with the first page", async () => {
  const asked = queue(many(1500));
  render(<Jobs />);
  fireEvent.click(await screen.findByRole("button", { name: "Show more" }));
  await vi.waitFor(() => expect(screen.queryByRole("button")).toBeNull(), PATIENCE);
  asked.length = 0;
  fireEvent.change(screen.getByLabelText("Pool"), { target: { value: "p4" } });
  await screen.findByRole("button", { name: "Show more" });
  expect(asked.map((query) => [query.get("pool"), query.get("next")])).toEqual([["p4", null]]);
});

test("jobs stay where they are until the answer to a changed filter comes", async () => {
  const asked = queue(many(3));
  render(<Jobs />);
  const link = await screen.findByRole("link", { name: "job-2" });
  fireEvent.change(screen.getByLabelText("Project"), { target: { value: "vision" } });
  await vi.waitFor(() => expect(location.search).toContain("project=vision"), PATIENCE);
  expect(link.isConnected).toBe(true);
  await vi.waitFor(() => expect(asked.at(-1)!.get("project")).toBe("vision"), PATIENCE);
  await vi.waitFor(() => expect(screen.getByRole("link", { name: "job-2" })).toBe(link), PATIENCE);
});

test("a refusal stays as well, until the answer to a changed filter comes", async () => {
  queue(many(3));
  render(<Jobs />);
  await screen.findByRole("link", { name: "job-2" });
  vi.stubGlobal("fetch", async () => new Response(JSON.stringify({ message: "the queue is away" }), { status: 503 }));
  fireEvent(document, new Event("visibilitychange"));
  await screen.findByText("the queue is away");
  const answers: (() => void)[] = [];
  vi.stubGlobal("fetch", () => new Promise((done) => answers.push(() => done(new Response(JSON.stringify({ jobs: many(3), more: false, next: null }))))));
  fireEvent.change(screen.getByLabelText("Project"), { target: { value: "vision" } });
  await vi.waitFor(() => expect(answers.length).toBeGreaterThan(0), PATIENCE);
  expect(screen.getByText("the queue is away").hidden, "it takes room").toBe(false);
  expect(screen.getByRole("link", { name: "job-2" })).toBeTruthy();
  answers.forEach((answer) => answer());
  await vi.waitFor(() => expect(screen.queryByText("the queue is away")).toBeNull(), PATIENCE);
});
