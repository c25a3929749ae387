import { expect, test } from "vitest";
import type { Pool } from "../src/api";
import { troubleOf } from "../src/views/queue";
import { clock } from "../src/words";

const MOMENT = "2026-11-20T11:00:00.000Z";
const pool = (size: number, health: Partial<Pool["health"]>, foreign = 0): Pool =>
  ({
    capacity: { slots: 4 },
    foreign: { slots: foreign },
    size: { slots: size },
    health: { errors: 0, message: "", missing_rights: [], ...health },
  }) as unknown as Pool;

test.each([
  ["a healthy pool has no trouble", pool(4, {}), ""],
  ["foreign use is no trouble", pool(3, {}, 1), ""],
  ["a limit that is over is no trouble", pool(4, { learned: 2, learned_until: MOMENT, message: "full" }), ""],
  [
    "a learned limit has its end and SageMaker's sentence",
    pool(2, { learned: 2, learned_until: MOMENT, message: "is 2 Instances" }),
    `The account allows 2 slots until ${clock(MOMENT)}. is 2 Instances`,
  ],
  [
    "a back-off has its end",
    pool(4, { errors: 1, not_before: MOMENT, message: "no capacity" }),
    `Next try at ${clock(MOMENT)}. no capacity`,
  ],
])("%s", (_, of, said) => expect(troubleOf(of)).toBe(said));
