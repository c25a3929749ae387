import { afterEach, expect, test, vi } from "vitest";
import type { AttemptsPage, HeldSlots } from "../src/api";
import { attemptsIn } from "../src/attempts";

const HOUR = 3_600_000;
const BEGIN = Date.parse("2026-11-20T00:00:00Z");
const at = (hours: number) => new Date(BEGIN + hours * HOUR).toISOString();
const held = (job: string, ended: number | null = 1): HeldSlots =>
  ({ job, number: 1, admitted_at: at(0), ended_at: ended === null ? null : at(ended) }) as HeldSlots;
const settled = (attempts: number, next: string, gone = 0) => ({ attempts, gone, unreadable: 0, next });
const page = (attempts: HeldSlots[], fields: Partial<AttemptsPage> = {}): AttemptsPage =>
  ({ start: at(0), end: at(24), as_of: at(24), attempts, gone: 0, unreadable: 0, next: null, settled: null, ...fields }) as AttemptsPage;

/** Answers in turn, the last again and again; returns what was asked. A number is a refusal of `next`. */
function answers(...said: (AttemptsPage | number)[]): URLSearchParams[] {
  const asked: URLSearchParams[] = [];
  vi.stubGlobal("fetch", async (address: string) => {
    asked.push(new URL(address, "http://localhost").searchParams);
    const answer = said[Math.min(asked.length, said.length) - 1]!;
    if (typeof answer === "number")
      return new Response(JSON.stringify({ code: "invalid_request", message: "no", field: "next" }), { status: answer });
    return new Response(JSON.stringify(answer));
  });
  return asked;
}
const signal = new AbortController().signal;
const names = (of: { page: AttemptsPage }) => of.page.attempts.map((attempt) => attempt.job);

afterEach(() => vi.unstubAllGlobals());

test("pages are put together, up to 5,000 attempts", async () => {
  const thousand = Array.from({ length: 1000 }, (_, n) => held(`job${n}`));
  const asked = answers(...Array.from({ length: 9 }, (_, n) => page(thousand, { next: `cursor${n}`, gone: 1 })));
  const { page: found } = await attemptsIn({ pool: "p5" }, signal);
  expect([found.attempts.length, found.gone, found.next, asked.length]).toEqual([5000, 5, "cursor4", 5]);
  expect([asked[1]!.get("next"), asked[1]!.get("from"), asked[1]!.get("pool")]).toEqual(["cursor0", at(0), "p5"]);
});

test("a search without end comes to an end", async () => {
  const asked = answers(page([], { next: "cursor" }));
  await attemptsIn({}, signal);
  expect(asked.length).toBe(20);
});

test("a later look keeps what is settled and asks for the rest", async () => {
  const asked = answers(
    page([held("a"), held("b"), held("new"), held("runs", null)], { settled: settled(2, "here", 3), gone: 4 }),
    page([held("new"), held("runs", 9), held("next", null)], { settled: settled(1, "there"), gone: 1 }),
    page([held("runs", 9), held("next", 10)], { settled: settled(0, "there") }),
  );
  const first = await attemptsIn({ pool: "p5" }, signal);
  expect([names(first), first.page.gone]).toEqual([["a", "b", "new", "runs"], 4]);
  const second = await attemptsIn({ pool: "p5" }, signal, first);
  expect([names(second), second.page.gone]).toEqual([["a", "b", "new", "runs", "next"], 4]);
  const third = await attemptsIn({ pool: "p5" }, signal, second);
  expect([names(third), third.page.attempts[4]!.ended_at, third.page.gone]).toEqual([["a", "b", "new", "runs", "next"], at(10), 3]);
  expect(asked.map((query) => [query.get("next"), query.get("from"), query.get("pool")])).toEqual([
    [null, null, "p5"],
    ["here", null, "p5"],
    ["there", null, "p5"],
  ]);
});

test("what is settled behind unsettled records is not kept", async () => {
  const asked = answers(
    page([held("a")], { next: "one", settled: settled(1, "one") }),
    page([held("b"), held("c")], { next: "two", settled: settled(1, "border") }),
    page([held("d")], { settled: settled(1, "later") }),
    page([held("c"), held("d"), held("e")], { settled: settled(0, "border") }),
  );
  const first = await attemptsIn({}, signal);
  expect(names(first)).toEqual(["a", "b", "c", "d"]);
  expect(names(await attemptsIn({}, signal, first))).toEqual(["a", "b", "c", "d", "e"]);
  expect(asked.map((query) => query.get("next"))).toEqual([null, "one", "two", "border"]);
});

test("what a window that ends now has left behind is dropped", async () => {
  answers(
    page([held("early", 1), held("late", 5)], { settled: settled(2, "here") }),
    page([], { start: at(2), end: at(26), settled: settled(0, "here") }),
  );
  const first = await attemptsIn({}, signal);
  expect(names(await attemptsIn({}, signal, first))).toEqual(["late"]);
});

test("where the queue does not know the cursor any more, everything is asked for again", async () => {
  const asked = answers(page([held("a")], { settled: settled(1, "here") }), 400, page([held("b")]));
  const first = await attemptsIn({}, signal);
  expect(names(await attemptsIn({}, signal, first))).toEqual(["b"]);
  expect(asked.map((query) => query.get("next"))).toEqual([null, "here", null]);
});

test("a queue without a settled part is asked for everything", async () => {
  const asked = answers(page([held("a")]));
  await attemptsIn({}, signal, await attemptsIn({}, signal));
  expect(asked.map((query) => query.get("next"))).toEqual([null, null]);
});

test("5,000 settled attempts are asked for once", async () => {
  const asked = answers(page(Array.from({ length: 5000 }, (_, n) => held(`job${n}`)), { next: "more", settled: settled(5000, "more") }));
  const first = await attemptsIn({ from: at(0) }, signal);
  expect(await attemptsIn({ from: at(0) }, signal, first)).toBe(first);
  expect(asked.length).toBe(1);
});
