import { expect, test } from "vitest";
import { added, asText, leftOut } from "../src/views/logs";

const lines = (count: number) => Array.from({ length: count }, (_, n) => ({ training_job: "j", message: String(n) }));

test("new lines follow the old ones", () => {
  const first = added({ cursor: "", lines: [], leftOut: 0, earlier: false }, { cursor: "a", lines: lines(2), left_out: 3, earlier: false, trouble: "" });
  const second = added(first, { cursor: "a", lines: lines(1), left_out: 0, earlier: false, trouble: "" });
  expect(second).toMatchObject({ leftOut: 3, lines: { length: 3 } });
});

test("another cursor starts from the beginning", () => {
  const old = { cursor: "a", lines: lines(2), leftOut: 3, earlier: false };
  expect(added(old, { cursor: "b", lines: lines(1), left_out: 0, earlier: false, trouble: "" })).toMatchObject({ leftOut: 0, lines: { length: 1 } });
});

test("the last 5,000 lines stay", () => {
  const old = { cursor: "a", lines: lines(4_999), leftOut: 0, earlier: false };
  const next = added(old, { cursor: "a", lines: lines(3), left_out: 0, earlier: false, trouble: "" });
  expect([next.lines.length, next.leftOut, next.lines.at(-1)!.message]).toEqual([5_000, 2, "2"]);
});

test("each attempt has a heading", () =>
  expect(asText([...lines(2), { training_job: "k", message: "again" }])).toBe("== j\n0\n1\n== k\nagain"));

test("what is missing is counted where that is known", () => {
  const shown = { cursor: "a", lines: lines(1), earlier: false };
  expect(leftOut({ ...shown, leftOut: 1 })).toBe("1 earlier line is");
  expect(leftOut({ ...shown, leftOut: 1_200 })).toBe("1,200 earlier lines are");
  const begun = added({ cursor: "", lines: [], leftOut: 0, earlier: false }, { cursor: "a", lines: lines(2), left_out: 0, earlier: true, trouble: "" });
  expect(leftOut(added(begun, { cursor: "a", lines: lines(2), left_out: 0, earlier: false, trouble: "" }))).toBe("Earlier lines are");
});
