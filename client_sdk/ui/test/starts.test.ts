import { expect, test } from "vitest";
import { inAll, inShort, type Start } from "../src/starts";

const NOW = Date.parse("2026-11-20T12:00:00Z");
const start = (fields: Partial<Start>): Start => ({
  at: "2026-11-20T12:00:00Z", hours: 24, known: true, starts: null, at_most: false, ...fields,
});
const at = (minutes: number) => new Date(NOW + minutes * 60_000 + 7_000).toISOString();

test.each([
  [start({ starts: at(40) }), ["about 40 min"], "By what is known it starts in about 40 min, if nothing else comes."],
  [start({ starts: at(182), at_most: true }), ["at most about 3 h"], "By what is known it starts in at most about 3 h, if nothing else comes."],
  [start({ starts: at(0) }), [], "By what is known it starts within a minute."],
  [start({}), [], "By what is known it does not start within 24 hours."],
  [start({ known: false }), [], "It is too far behind in the line to reckon when it starts."],
])("%o", (begin, short, whole) => {
  expect(inShort(begin, NOW)).toEqual(short);
  expect(inAll(begin, NOW)).toBe(whole);
});
