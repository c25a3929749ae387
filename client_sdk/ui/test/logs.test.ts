import { expect, test } from "vitest";
import { added, asText } from "../src/views/logs";

const lines = (count: number) => Array.from({ length: count }, (_, n) => ({ training_job: "j", message: String(n) }));

test("new lines follow the old ones", () => {
  const first = added({ cursor: "", lines: [], leftOut: 0 }, { cursor: "a", lines: lines(2), left_out: 3, trouble: "" });
  const second = added(first, { cursor: "a", lines: lines(1), left_out: 0, trouble: "" });
  expect(second).toMatchObject({ leftOut: 3, lines: { length: 3 } });
});

test("another cursor begins anew", () => {
  const old = { cursor: "a", lines: lines(2), leftOut: 3 };
  expect(added(old, { cursor: "b", lines: lines(1), left_out: 0, trouble: "" })).toMatchObject({ leftOut: 0, lines: { length: 1 } });
});

test("the last 5,000 lines stay", () => {
  const old = { cursor: "a", lines: lines(4_999), leftOut: 0 };
  const next = added(old, { cursor: "a", lines: lines(3), left_out: 0, trouble: "" });
  expect([next.lines.length, next.leftOut, next.lines.at(-1)!.message]).toEqual([5_000, 2, "2"]);
});

test("each attempt has a heading", () =>
  expect(asText([...lines(2), { training_job: "k", message: "again" }])).toBe("== j\n0\n1\n== k\nagain"));
