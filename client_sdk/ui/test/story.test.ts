import { expect, test } from "vitest";
import type { Attempt, Job } from "../src/api";
import { story } from "../src/story";
import { remarks } from "../src/views/job";

const at = (minute: number) => new Date(minute * 60_000).toISOString();
const now = 500 * 60_000;

const attempt = (fields: Partial<Attempt>): Attempt =>
  ({ pool: "p5", running_since: null, ended_at: null, outcome: null, stopped_for: null, ...fields }) as Attempt;
const job = (fields: Partial<Job>): Job =>
  ({ name: "j", state: "pending", entry_time: at(0), attempts: [], place: null, pools: ["p5"], ...fields }) as Job;

test("an evicted job that waits again", () => {
  const first = attempt({
    admitted_at: at(12),
    running_since: at(13),
    ended_at: at(193),
    outcome: "evicted",
    stopped_for: "urgent-eval",
  });
  const chapters = story(job({ state: "preempted", attempts: [first], place: 2 }), now);
  expect(chapters).toEqual(["waited 12 min", "ran 3 h", "evicted for urgent-eval", "waits: 2nd in p5"]);
});

test("a job whose place is only known to be a later one", () =>
  expect(story(job({ place: 1000, place_is_lower_bound: true }), now)).toEqual([
    "waits: at least 1,000th in p5",
  ]));

test("a job of several pools, whose place counts the jobs of all their lines", () =>
  expect(story(job({ place: 9, pools: ["p5", "p4"] }), now)).toEqual(["waits: 9th in the line of p5, p4"]));

test("a job that runs", () => {
  const first = attempt({ admitted_at: at(1), running_since: at(440) });
  expect(story(job({ state: "running", attempts: [first] }), now)).toEqual([
    "waited 1 min",
    "has run 1 h in p5",
  ]);
});

test("an end is shown once", () => {
  const only = attempt({ admitted_at: at(0), running_since: at(0), ended_at: at(1), outcome: "failed" });
  expect(story(job({ state: "failed", attempts: [only] }), now)).toEqual(["waited 0 s", "ran 1 min", "failed"]);
});

test("a job that is being stopped", () => {
  const first = attempt({ admitted_at: at(1), running_since: at(440), stopped_for: "big" });
  expect(story(job({ state: "stopping", attempts: [first] }), now).at(-1)).toBe(
    "is being stopped for big",
  );
});

test("an attempt that started on warm instances says so", () => {
  expect(remarks(attempt({ warm: true, message: "it goes on" }))).toEqual(["On warm instances.", "it goes on"]);
  expect(remarks(attempt({}))).toEqual([]);
});
