import { expect, test } from "vitest";
import { lasting, ordinal, person } from "../src/words";

test.each([
  [0, "0 s"],
  [-5, "0 s"],
  [59.4, "59 s"],
  [60, "1 min"],
  [3_600 * 3 + 60 * 20 + 5, "3 h 20 min"],
  [86_400 * 2, "2 d"],
])("%d s is said as %s", (seconds, said) => expect(lasting(seconds)).toBe(said));

test.each([
  [1, "1st"],
  [2, "2nd"],
  [3, "3rd"],
  [11, "11th"],
  [112, "112th"],
  [1021, "1,021st"],
])("place %d is the %s", (place, said) => expect(ordinal(place)).toBe(said));

test("a person is the last part of an ARN", () =>
  expect(person("arn:aws:sts::1:assumed-role/team/ada")).toBe("ada"));
