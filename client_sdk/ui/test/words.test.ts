import { expect, test } from "vitest";
import { inShort, inWords, type Progress } from "../src/parts/progress";
import { clock, duration, lasting, ordinal, person, short, shortened } from "../src/words";
import both from "./words.json";

// The terminal's side of these examples: tests/unit/client/test_words_of_the_page.py.
test.each(both.durations)("%d s are %s in a table", (seconds, said) => expect(duration(seconds as number)).toBe(said));
test.each(both.moments)("%s is %s in a table", (moment, said) => expect(short(moment!)).toBe(said));
test.each(both.progress)("progress $said.cell", ({ progress, said }) => {
  expect(inShort(progress as Progress)).toBe(said.cell);
  expect(inWords(progress as Progress)).toBe(said.words);
});

test("a moment in a sentence", () => expect(clock("2026-11-20T10:30:05.123Z")).toBe("2026-11-20 10:30:05 UTC"));

test.each([
  ["short", 8, "short"],
  ["resnet50-imagenet-seed-17", 13, "resn…-seed-17"],
  ["resnet50-imagenet-seed-18", 13, "resn…-seed-18"],
  ["name", 1, "…"],
])("%s in %d letters", (name, most, said) => expect(shortened(name, most)).toBe(said));

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
