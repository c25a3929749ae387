// The bars of a timeline: the position of each, its neighbours, and the lines from
// those that were evicted to those that came instead.

import type { HeldSlots } from "./api";
import { thickness, type Held, type PoolLanes, type Span } from "./timeline";

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

const LEAST_WIDTH = 6;
/** Shorter lines are indistinct from the bars. */
const LEAST_LINE = 4;
const MOST_LINES = 60;

const place = ({ from, to }: Span, width: number) => (moment: number) =>
  ((Math.min(to, Math.max(from, moment)) - from) / (to - from)) * width;

export function boxOf({ lane: row, begin, end }: Held, span: Span, width: number, lane: number): Box {
  const at = place(span, width);
  const left = at(begin);
  return { left, top: row * lane + 2, width: Math.max(LEAST_WIDTH, at(end) - left), height: thickness(lane) };
}

/** The bars that the window shows, by lane and then by time. */
export const inSight = ({ held }: PoolLanes, { from, to }: Span): Held[] =>
  held
    .filter((bar) => bar.end >= from && bar.begin < to)
    .sort((one, other) => one.lane - other.lane || one.begin - other.begin);

/** The bar that a key leads to: left and right in the lane, up and down to the nearest of another lane. */
export function neighbour(bars: Held[], current: Held, key: string): Held | undefined {
  const at = bars.indexOf(current);
  const sideways = (next: Held | undefined) => (next?.lane === current.lane ? next : undefined);
  if (key === "ArrowRight") return sideways(bars[at + 1]);
  if (key === "ArrowLeft") return sideways(bars[at - 1]);
  if (key === "Home") return bars[0];
  if (key === "End") return bars.at(-1);
  const way = key === "ArrowDown" ? 1 : -1;
  const beyond = bars.filter((bar) => (bar.lane - current.lane) * way > 0);
  const lane = Math.min(...beyond.map((bar) => bar.lane * way)) * way;
  const apart = (bar: Held) => Math.max(0, bar.begin - current.end, current.begin - bar.end);
  return beyond
    .filter((bar) => bar.lane === lane)
    .reduce<Held | undefined>((best, bar) => (!best || apart(bar) < apart(best) ? bar : best), undefined);
}

export interface Line {
  from: HeldSlots;
  to: HeldSlots;
  path: string;
}

/** The lines from each evicted bar's end to the start of the job that it was evicted for. */
export function lines({ held }: PoolLanes, span: Span, width: number, lane: number): Line[] {
  const at = place(span, width);
  const middle = (bar: Held) => bar.lane * lane + 2 + thickness(lane) / 2;
  const starts = new Map<string, Held[]>();
  for (const bar of held) {
    const there = starts.get(bar.of.job);
    if (there) there.push(bar);
    else starts.set(bar.of.job, [bar]);
  }
  const found: Line[] = [];
  for (const bar of held) {
    const { evicted } = bar.of;
    if (!evicted?.job || bar.end < span.from || bar.end >= span.to) continue;
    const gains = starts.get(evicted.job)?.find((other) => other.begin >= bar.end);
    if (!gains || gains.begin >= span.to) continue;
    const [x, y, toX, toY] = [at(bar.end), middle(bar), at(gains.begin), middle(gains)].map(round) as [number, number, number, number];
    if (Math.hypot(toX - x, toY - y) < LEAST_LINE) continue;
    const bend = Math.max(8, (toX - x) / 2);
    const path = `M${x} ${y}C${round(x + bend)} ${y} ${round(toX - bend)} ${toY} ${toX} ${toY}m-5 -3l5 3l-5 3`;
    found.push({ from: bar.of, to: gains.of, path });
  }
  return found;
}

/** One path: of all lines, or where these would be a thicket, of those at the bar that somebody looks at. */
export const asPath = (all: Line[], pointed: HeldSlots | undefined): string =>
  (all.length > MOST_LINES ? all.filter(({ from, to }) => from === pointed || to === pointed) : all)
    .map(({ path }) => path)
    .join("");

const round = (number: number): number => Math.round(number * 10) / 10;
