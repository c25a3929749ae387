import { expect, test } from "vitest";
import { fraction, inShort, inWords, type Progress } from "../src/parts/progress";

const progress = (fields: Partial<Progress>): Progress =>
  ({ step: null, of: null, at: null, eta_seconds: null, metrics: {}, saved: null, ...fields }) as Progress;

test("a report in a table", () =>
  expect(inShort(progress({ step: 4_199, of: 10_000, eta_seconds: 3_900 }))).toBe("41 %, 1h05 left"));

test("a report that does not say how much there is", () =>
  expect(inShort(progress({ step: 4_200 }))).toBe("4,200"));

test("a report in words", () =>
  expect(
    inWords(
      progress({
        step: 4_200,
        of: 10_000,
        eta_seconds: 60,
        metrics: { loss: 0.123456, phase: "warm" },
        saved: { step: 4_000, at: "", took_seconds: 12 } as never,
      }),
    ),
  ).toBe("step 4,200 of 10,000 (42 %), 1m left, loss 0.1235, phase warm, saved step 4,000 in 12s"));

test.each([
  [5, 0],
  [5, -1],
  [null, 10],
])("step %s of %s is no part of anything", (step, of) => expect(fraction(progress({ step, of }))).toBeUndefined());

test("a script cannot be more than done", () => expect(fraction(progress({ step: 9, of: 3 }))).toBe(1));
