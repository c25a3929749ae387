import { expect, test } from "vitest";
import type { Job } from "../src/api";
import { deeds } from "../src/views/actions";
import { sentences, type Answer } from "../src/whatif";

const NOW = "2026-11-20T12:00:00.000Z";
const state = (what: string) => ({ what, pool: what === "waits" ? null : "p5" });
const answer = (fields: Partial<Answer>): Answer => ({ at: NOW, withheld: 0, now: [], timeline: [], ...fields });

test("who is evicted comes first, then who starts", () =>
  expect(
    sentences(
      answer({
        now: [
          { job: "b", before: state("waits"), after: state("starts") },
          { job: "a", before: state("runs"), after: state("evicted") },
          { job: "c", before: state("starts"), after: state("waits") },
          { job: "d", before: state("waits"), after: state("waits") },
        ],
      }),
    ),
  ).toEqual(["a is evicted.", "b starts now in p5.", "c does not start now."]));

test("later starts are shown once for each job", () =>
  expect(
    sentences(
      answer({
        timeline: [
          { job: "a", event: "start", before: { at: "2026-11-20T17:00:00.000Z", pool: "p5" }, after: { at: "2026-11-20T12:02:00.000Z", pool: "p5" } },
          { job: "a", event: "start", before: null, after: { at: "2026-11-20T13:00:00.000Z", pool: "p5" } },
          { job: "b", event: "start", before: { at: NOW, pool: "p5" }, after: null },
          { job: "c", event: "complete", before: null, after: { at: NOW, pool: "p5" } },
        ],
      }),
    ),
  ).toEqual(["a starts in 2 min instead of in 5 h.", "b starts not within 8 hours instead of now."]));

test("a long list is cut, and says where the rest is", () => {
  const now = Array.from({ length: 9 }, (_, n) => ({ job: `j${n}`, before: state("runs"), after: state("evicted") }));
  const lines = sentences(answer({ now }));
  expect(lines).toHaveLength(7);
  expect(lines.at(-1)).toBe("And 3 more: slotq whatif shows all.");
});

test("what is asked of the simulator is what is done", () => {
  const job = { name: "x", state: "pending", priority: 0, pools: ["p5"], attempts_begun: 0 } as unknown as Job;
  const changes = Object.fromEntries(deeds(job).map((deed) => [deed.name, deed.change?.("9")]));
  expect(changes).toEqual({
    Hold: { holds: ["x"] },
    Priority: { priorities: { x: "9" } },
    Move: { moves: { x: ["9"] } },
    Cancel: { cancels: ["x"] },
  });
});
