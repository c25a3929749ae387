import { expect, test } from "vitest";
import type { HeldSlots } from "../src/api";
import { asPath, boxOf, inSight, lines, neighbour } from "../src/bars";
import type { Held, PoolLanes } from "../src/timeline";

const SPAN = { from: 0, to: 100 };
const bar = (job: string, lane: number, begin: number, end: number, evictedFor = ""): Held => ({
  of: { job, evicted: evictedFor ? { job: evictedFor } : null } as HeldSlots,
  lane,
  begin,
  runs: begin,
  end,
});
const drawn = (held: Held[], pointed?: HeldSlots): string => asPath(lines(pool(...held), SPAN, 1000, 22), pointed);
const pool = (...held: Held[]): PoolLanes => ({ pool: "p5", lanes: 3, held: held.sort((one, other) => one.begin - other.begin) });

test("lines lead to the first start behind the eviction", () => {
  const found = drawn([bar("v", 0, 0, 40, "u"), bar("u", 1, 10, 20), bar("u", 1, 50, 60), bar("u", 1, 70, 80)]);
  expect(found).toMatch(/^M400 11C450 11 450 33 500 33m-5 -3l5 3l-5 3$/);
});

test("each of several evicted for one job has a line", () => {
  const found = drawn([bar("a", 0, 0, 40, "u"), bar("b", 1, 0, 41, "u"), bar("u", 2, 50, 60)]);
  expect(found.match(/M/g)!.length).toBe(2);
});

test.each([
  ["the start is outside the window", [bar("v", 0, 0, 40, "u"), bar("u", 1, 100, 120)]],
  ["the end is outside the window", [bar("v", 0, -20, -1, "u"), bar("u", 1, 10, 20)]],
  ["the beneficiary is unknown", [bar("v", 0, 0, 40), bar("", 1, 50, 60)]],
  ["the two touch", [bar("v", 0, 0, 40, "u"), bar("u", 0, 40, 60)]],
])("no line where %s", (_, held) => expect(drawn(held)).toBe(""));

test("of very many lines only those at the bar that is pointed at are drawn", () => {
  const pairs = Array.from({ length: 61 }, (_, n) => [bar(`v${n}`, 0, n, n + 0.5, `u${n}`), bar(`u${n}`, 1, n + 20, n + 21)]);
  expect(drawn(pairs.slice(1).flat()).match(/M/g)!.length).toBe(60);
  expect(drawn(pairs.flat())).toBe("");
  for (const end of pairs[7]!) expect(drawn(pairs.flat(), end.of)).toMatch(/^M75 11C/);
});

test("a narrow bar has a frame that can be seen, where it is drawn", () => {
  expect(boxOf(bar("a", 2, 10, 10), SPAN, 1000, 22)).toEqual({ left: 100, top: 46, width: 6, height: 18 });
  expect(boxOf(bar("a", 0, -50, 150), SPAN, 1000, 22)).toEqual({ left: 0, top: 2, width: 1000, height: 18 });
});

test("every bar in sight is reached by the arrows", () => {
  const held = Array.from({ length: 60 }, (_, n) => bar(`j${n}`, (n * 7) % 5, (n * 13) % 90, ((n * 13) % 90) + (n % 6)));
  const bars = inSight(pool(...held, bar("out", 9, 200, 300)), SPAN);
  expect(bars.length).toBe(60);
  const seen = new Set([bars[0]!]);
  for (const current of seen)
    for (const key of ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"]) {
      const next = neighbour(bars, current, key);
      if (next) seen.add(next);
    }
  expect(seen.size).toBe(60);
});

test("up and down lead to the nearest bar of the next lane that has one", () => {
  const bars = inSight(pool(bar("a", 0, 40, 50), bar("far", 2, 0, 10), bar("near", 2, 55, 60), bar("off", 2, 90, 95)), SPAN);
  expect(neighbour(bars, bars[0]!, "ArrowDown")?.of.job).toBe("near");
  expect(neighbour(bars, bars[1]!, "ArrowUp")?.of.job).toBe("a");
  expect(neighbour(bars, bars[0]!, "ArrowUp")).toBeUndefined();
});
