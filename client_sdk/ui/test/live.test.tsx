import { cleanup, render, screen } from "@testing-library/preact";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { call } from "../src/api";
import { pauseAfter, useLive } from "../src/live";
import { Queue } from "../src/views/queue";

const jobs = (number: number, priority = 0) =>
  Array.from({ length: number }, (_, n) => ({ name: `job-${n}`, state: "pending", pools: ["p5"], priority, demand: { slots: 1 }, user: "ada", submitter: "ada", place: n + 1, entry_time: "2026-11-20T00:00:00Z" }));

/** The queue behind `slotq ui`: answers by path, a tag for each text; records what was asked and how it was answered. */
function queue(answers: Record<string, () => unknown>) {
  const asked: { path: string; status: number }[] = [];
  vi.stubGlobal("fetch", async (address: string, init: RequestInit) => {
    const path = new URL(address, "http://localhost").pathname.replace("/api", "");
    const text = JSON.stringify(answers[path]?.() ?? {});
    const tag = `W/"${text.length}-${text.slice(-300)}"`.replace(/[^\x20-\x7e]/g, "");
    const status = (init.headers as Record<string, string>)["If-None-Match"] === tag ? 304 : 200;
    asked.push({ path, status });
    return new Response(status === 304 ? null : text, { status, headers: { ETag: tag } });
  });
  return asked;
}

function hide(hidden: boolean) {
  vi.spyOn(document, "hidden", "get").mockReturnValue(hidden);
  document.dispatchEvent(new Event("visibilitychange"));
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  cleanup();
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

test.each([
  ["a short answer", { jobs: jobs(9) }, 0, 3],
  ["one that has not changed", { jobs: jobs(9) }, 1, 4.5],
  ["one that has not changed for long", { jobs: jobs(9) }, 99, 15],
  ["a long answer", { jobs: jobs(200) }, 0, 18],
  ["a very long one", { jobs: jobs(1000) }, 0, 50],
  ["more than a page", { jobs: jobs(9000) }, 99, 60],
  ["a job behind a few", { place: 9 }, 0, 3],
  ["a job behind many", { place: 5000 }, 0, 26],
  ["groups, made from many jobs", { groups: [], examined: 4000 }, 0, 50],
  ["few jobs out of many", { jobs: jobs(5), examined: 4000 }, 0, 50],
  ["no answer yet", undefined, 0, 3],
])("the pause after %s", (_, value, unchanged, seconds) => expect(pauseAfter(value, 3, unchanged)).toBe(seconds));

test("what the page has already is not sent again, and is the same object", async () => {
  const asked = queue({ "/once": () => ({ a: 1 }) });
  const first = await call("GET", "/once");
  expect(await call("GET", "/once")).toBe(first);
  expect(asked.map(({ status }) => status)).toEqual([200, 304]);
});

test("an equal answer under another tag is the same object as well", async () => {
  let tag = 0;
  vi.stubGlobal("fetch", async () => new Response('{"a": 2}', { headers: { ETag: `"${++tag}"` } }));
  expect(await call("GET", "/again")).toBe(await call("GET", "/again"));
});

test("a change, a refusal and an answer without a tag are never taken from memory", async () => {
  const answers = [new Response("{}", { headers: { ETag: '"1"' } }), new Response('{"message": "no"}', { status: 503 }), new Response('{"b": 1}')];
  const sent: string[] = [];
  vi.stubGlobal("fetch", async (_: string, init: RequestInit) => {
    sent.push((init.headers as Record<string, string>)["If-None-Match"] ?? "");
    return answers.shift();
  });
  await call("GET", "/other");
  await expect(call("GET", "/other")).rejects.toThrow("no");
  expect(await call("GET", "/other")).toEqual({ b: 1 });
  await expect(call("POST", "/other")).rejects.toBeTruthy();
  expect(sent).toEqual(["", '"1"', '"1"', ""]);
});

function Number({ ask }: { ask: () => Promise<unknown> }) {
  const live = useLive("n", ask);
  return <p>{JSON.stringify(live.value)}</p>;
}

test("a hidden page asks nothing; once it is shown it asks at once, and often again", async () => {
  const ask = vi.fn(async () => 7);
  render(<Number ask={ask} />);
  await vi.advanceTimersByTimeAsync(120_000);
  const seldom = ask.mock.calls.length;
  expect(seldom).toBeLessThan(16);
  hide(true);
  await vi.advanceTimersByTimeAsync(600_000);
  expect(ask.mock.calls.length - seldom).toBe(0);
  hide(false);
  await vi.advanceTimersByTimeAsync(0);
  expect(ask.mock.calls.length - seldom).toBe(1);
  await vi.advanceTimersByTimeAsync(8_000);
  expect(ask.mock.calls.length - seldom, "after 3 and 7.5 s").toBe(3);
});

test("what changes is asked for every three seconds", async () => {
  let answers = 0;
  const ask = vi.fn(async () => ++answers);
  render(<Number ask={ask} />);
  await vi.advanceTimersByTimeAsync(60_500);
  expect(ask.mock.calls.length).toBe(21);
});

/** How often a minute of the view of a queue with so many shown jobs asks, by path; the bench takes these numbers. */
async function minute(answer: () => unknown): Promise<Record<string, number>> {
  const pool = { name: "p5", capacity: { slots: 4 }, foreign: {}, size: { slots: 4 }, used: { slots: 4 }, instance_type: "ml.p5.48xlarge", settings: { state: "active" }, health: { errors: 0 } };
  const asked = queue({ "/jobs": answer, "/pools": () => ({ pools: [pool] }), "/projects": () => ({ projects: [] }) });
  render(<Queue />);
  await vi.advanceTimersByTimeAsync(60_000);
  const count: Record<string, number> = {};
  asked.length = 0;
  await vi.advanceTimersByTimeAsync(600_000);
  for (const { path } of asked) count[path] = (count[path] ?? 0) + 1;
  return Object.fromEntries(Object.entries(count).map(([path, times]) => [path, times / 10]));
}

test("a minute of a long queue that changes all the time", async () => {
  let priority = 0;
  expect(await minute(() => ({ jobs: jobs(200, ++priority), more: true }))).toEqual({ "/jobs": 3.3, "/pools": 3.3, "/projects": 3.3 });
});

test("a minute of a long queue that does not change", async () =>
  expect(await minute(() => ({ jobs: jobs(200), more: true }))).toEqual({ "/jobs": 3.3, "/pools": 3.3, "/projects": 3.3 }));

test("more of a long queue is shown on request, and what was shown stays until then", async () => {
  const asked: string[] = [];
  vi.stubGlobal("fetch", async (address: string) => {
    const { pathname, searchParams } = new URL(address, "http://localhost");
    if (pathname !== "/api/jobs") return new Response(JSON.stringify({ pools: [], projects: [] }));
    asked.push(`${searchParams.get("limit")} ${searchParams.get("places")}`);
    return new Response(JSON.stringify({ jobs: jobs(+searchParams.get("limit")!), more: true }));
  });
  render(<Queue />);
  await vi.advanceTimersByTimeAsync(100);
  for (const shown of [200, 400, 600, 800]) {
    expect(screen.getByText(`Shown are the first ${shown} jobs of the queue.`)).toBeTruthy();
    screen.getByRole("button", { name: "Show more" }).click();
    await vi.advanceTimersByTimeAsync(0);
    expect(screen.getByText(/Shown are the first/)).toBeTruthy();
    await vi.advanceTimersByTimeAsync(100);
  }
  expect(screen.queryByRole("button", { name: "Show more" })).toBeNull();
  expect(asked).toEqual(["200 true", "400 true", "600 true", "800 true", "1000 true"]);
});
