// What the timeline draws: windows of time, lanes of a pool, and bars as paths. Few shapes, however
// many attempts: bars narrower than a point are drawn together, and a whole pool is five paths.

import type { HeldSlots } from "./api";
import { counted, lasting, person, shortened } from "./words";

export interface Span {
  /** Moments in ms. */
  from: number;
  to: number;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;
const SHORTEST = MINUTE;
const LONGEST = 366 * DAY;

/** The window with `factor` times its length, around its middle; one that ends now goes on to. */
export function zoomed({ from, to }: Span, factor: number, now: number): Span {
  const length = Math.min(LONGEST, Math.max(SHORTEST, (to - from) * factor));
  const end = to >= now ? now : Math.min(now, (from + to) / 2 + length / 2);
  return { from: end - length, to: end };
}

/** The window moved by a part of its length, never beyond the present. */
export function moved({ from, to }: Span, part: number, now: number): Span {
  const end = Math.min(now, to + (to - from) * part);
  return { from: end - (to - from), to: end };
}

/** The part of a fitted window that is left free at each end. */
const EDGE = 0.02;

/** The window that these bars fill: of the last day at most, and up to the present if something goes on. */
export function fitted(pools: PoolLanes[], now: number): Span {
  const held = pools.flatMap((pool) => pool.held);
  if (!held.length) return { from: now - DAY, to: now };
  const goesOn = held.some(({ of }) => !of.ended_at);
  const begin = held.reduce((least, bar) => Math.min(least, bar.begin), now);
  const end = goesOn ? now : held.reduce((most, bar) => Math.max(most, bar.end), begin);
  const edge = (end - begin) * EDGE;
  const to = goesOn ? now : Math.min(now, end + edge);
  return { from: Math.max(now - DAY, Math.min(begin - edge, to - SHORTEST)), to };
}

export interface Held {
  of: HeldSlots;
  lane: number;
  begin: number;
  /** When it got its instances; `end` if it never did. */
  runs: number;
  end: number;
}

export interface PoolLanes {
  pool: string;
  lanes: number;
  held: Held[];
}

/** The attempts of each pool, each in the first lane that is free when it begins. */
export function lanesOf(attempts: HeldSlots[], now: number): PoolLanes[] {
  const pools = new Map<string, Held[]>();
  for (const of of attempts) {
    const begin = Date.parse(of.admitted_at);
    const end = of.ended_at ? Date.parse(of.ended_at) : Math.max(begin, now);
    const runs = of.running_since ? Date.parse(of.running_since) : end;
    const held = { of, lane: 0, begin, runs, end };
    const parts = Object.keys(of.parts ?? {});
    for (const pool of parts.length ? parts : [of.pool]) {
      const there = pools.get(pool);
      if (there) there.push({ ...held });
      else pools.set(pool, [{ ...held }]);
    }
  }
  return [...pools]
    .sort(([one], [other]) => one.localeCompare(other))
    .map(([pool, held]) => {
      const ends: number[] = [];
      held.sort((one, other) => one.begin - other.begin);
      for (const bar of held) {
        const free = ends.findIndex((end) => end <= bar.begin);
        bar.lane = free < 0 ? ends.length : free;
        ends[bar.lane] = bar.end;
      }
      return { pool, lanes: ends.length, held };
    });
}

export interface Mark {
  x: number;
  y: number;
  text: string;
  /** On the pale part of a bar. */
  pale?: boolean;
  /** Beside its bar: whether it says who was evicted for whom, or is a name alone. */
  beside?: "eviction" | "name";
  /** Ends at `x`. */
  ends?: boolean;
}

export interface Drawing {
  starts: string;
  runs: string;
  /** Attempts on spot instances, and the time that instances stayed warm. */
  spot: string;
  warm: string;
  evicted: string;
  /** Texts within bars, or beside bars without room: names, and the beneficiary of an eviction. */
  names: Mark[];
  height: number;
  lane: number;
  /** How many rectangles the paths have. */
  shapes: number;
}

const TALL = 22;
const MOST_HEIGHT = 528;
const LEAST_LANE = 3;
const LETTER = 7;
const GAP = 3;
const MOST_NAMES = 150;
/** Fewer letters of a name say nothing. */
const LEAST_LETTERS = 6;

/** A bar whose name or eviction has found no room within it: it may find some beside it. */
interface Homeless {
  name: string;
  eviction: string;
  begin: number;
  end: number;
  y: number;
  /** Where the free part of the lane before it begins. */
  free: number;
  /** The whole name does not fit; this much of it does. */
  cut: Mark | undefined;
}

/** How thick the bars of a lane are, by its height. */
export const thickness = (lane: number): number => (lane > 6 ? lane - 4 : lane - 1);

/** The paths of a pool in a window, `width` points wide. */
export function drawing({ lanes, held }: PoolLanes, { from, to }: Span, width: number): Drawing {
  const lane = Math.max(LEAST_LANE, Math.min(TALL, Math.floor(MOST_HEIGHT / Math.max(1, lanes))));
  const thick = thickness(lane);
  const at = (moment: number) => ((Math.min(to, Math.max(from, moment)) - from) / (to - from)) * width;
  const starts: string[] = [];
  const runs: string[] = [];
  const spot: string[] = [];
  const warm: string[] = [];
  const evicted: string[] = [];
  const names: Mark[] = [];
  /** By lane, up to where its narrow bars are drawn already. */
  const drawn: number[] = [];
  /** The end of the last text, by lane. */
  const taken: number[] = [];
  /** By lane, the last bar, if it wants room beside it. */
  const last: (Homeless | undefined)[] = [];
  const settle = (row: number, next: number) => {
    const wants = last[row];
    last[row] = undefined;
    const mark = wants && beside(wants, next);
    if (!mark || names.length >= MOST_NAMES) return;
    names.push(mark);
    if (mark.beside && !mark.ends) taken[row] = mark.x + mark.text.length * LETTER;
  };
  for (const bar of held) {
    if (bar.end < from || bar.begin >= to) continue;
    const y = bar.lane * lane + 2;
    const begin = at(bar.begin);
    const end = at(bar.end);
    const middle = at(bar.runs);
    const speaks = lane === TALL && names.length < MOST_NAMES;
    if (speaks) settle(bar.lane, begin);
    let room = speaks ? end - begin - 8 : 0;
    let eviction = "";
    if (bar.of.evicted && bar.end <= to) {
      const tip = Math.max(3, Math.min(5, thick / 2));
      evicted.push(`M${round(end)} ${y}v${thick}l${-tip} ${-thick / 2}z`);
      const whole = forWhom(bar.of);
      const short = whole.replace(/^evicted (?=for )/, "");
      const text = room > whole.length * LETTER + tip ? whole : short;
      const needs = text.length * LETTER + tip;
      if (room > needs) {
        const x = end - needs - 4;
        names.push({ x, y: y + thick - 5, text, pale: x < middle });
        room -= needs + LETTER;
      } else eviction = whole;
    }
    // Not across the border between the pale part and the rest: on one of them it would not be legible.
    const name = speaks && bar.of.kind !== "warm" ? bar.of.job : "";
    const needs = name.length * LETTER;
    const pale = middle - begin > needs + 4;
    const x = pale || middle <= begin ? begin + 4 : middle + 4;
    const fits = room - (x - begin - 4) > needs;
    if (name && fits) names.push({ x, y: y + thick - 5, text: name, pale });
    if (speaks && (eviction || (name && !fits))) {
      const letters = Math.floor((room - (x - begin - 4)) / LETTER);
      const cut = letters >= LEAST_LETTERS ? { x, y: y + thick - 5, text: shortened(name, letters), pale: false } : undefined;
      last[bar.lane] = { name: fits ? "" : name, eviction, begin, end, y: y + thick - 5, free: taken[bar.lane] ?? 0, cut };
    }
    taken[bar.lane] = end;
    const full = bar.of.kind === "warm" ? warm : bar.of.kind === "spot" ? spot : runs;
    if (end - begin < 1) {
      const point = Math.floor(begin);
      if (point >= (drawn[bar.lane] ?? -1)) {
        full.push(box(point, y, 1, thick));
        drawn[bar.lane] = point + 1;
      }
    } else {
      if (middle > begin) starts.push(box(begin, y, middle - begin, thick));
      if (end > middle) full.push(box(middle, y, end - middle, thick));
    }
  }
  for (const row of last.keys()) settle(row, width);
  return {
    starts: starts.join(""),
    runs: runs.join(""),
    spot: spot.join(""),
    warm: warm.join(""),
    evicted: evicted.join(""),
    names,
    height: Math.max(1, lanes) * lane + 4,
    lane,
    shapes: starts.length + runs.length + spot.length + warm.length + evicted.length,
  };
}

/** The words beside a bar that cover neither a bar of its lane nor their words nor the window's edge: behind it, before it, or cut within it. */
function beside({ name, eviction, begin, end, y, free, cut }: Homeless, next: number): Mark | undefined {
  const room = next - end - 2 * GAP;
  const fits = (text: string) => text !== "" && text.length * LETTER < room;
  const both = name && eviction && `${name}, ${eviction}`;
  const behind = [both, eviction, name].find(fits);
  if (behind) return { x: end + GAP, y, text: behind, beside: behind === name ? "name" : "eviction" };
  if (name && begin - free - 2 * GAP > name.length * LETTER) return { x: begin - GAP, y, text: name, beside: "name", ends: true };
  return cut && name ? cut : undefined;
}

const round = (number: number): number => Math.round(number * 10) / 10;
const box = (x: number, y: number, width: number, height: number): string =>
  `M${round(x)} ${y}h${round(Math.max(1, width))}v${height}h${-round(Math.max(1, width))}z`;

/** The attempt at a point of the drawing. */
export function under(pool: PoolLanes, span: Span, width: number, lane: number, x: number, y: number): HeldSlots | undefined {
  const moment = span.from + (x / width) * (span.to - span.from);
  const near = (2 / width) * (span.to - span.from);
  const row = Math.floor((y - 2) / lane);
  let best: Held | undefined;
  for (const bar of pool.held)
    if (bar.lane === row && bar.begin - near <= moment && moment <= bar.end + near) best = bar;
  return best?.of;
}

export const nameOf = (of: HeldSlots): string => of.job || "a job of others";

/** Whom an attempt was evicted for. */
export function forWhom({ evicted }: HeldSlots): string {
  if (!evicted) return "";
  if (evicted.job) return `evicted for ${evicted.job}`;
  if (evicted.project || evicted.submitter)
    return `evicted for a job of ${[person(evicted.submitter), evicted.project].filter(Boolean).join(", ")}`;
  return "evicted";
}

/** What an attempt holds: slots, or the GPUs that it has of a node. */
export function slotsOf({ slots, part_of_slot }: HeldSlots): string {
  const [gpus, all] = part_of_slot ?? [];
  return gpus === undefined ? counted(slots, "slot") : `${gpus} of ${counted(all ?? gpus, "GPU")}`;
}

/** How long its instances stayed warm after it. */
const kept = (of: HeldSlots, end: number): string =>
  `${slotsOf(of)} warm for ${lasting((end - Date.parse(of.admitted_at)) / 1000)} after attempt ${of.number}`;

export function inWords(of: HeldSlots, now: number): string {
  const whose = [person(of.submitter), of.project].filter(Boolean).join(", ");
  const end = of.ended_at ? Date.parse(of.ended_at) : now;
  const how = of.evicted ? forWhom(of) : (of.outcome ?? (of.ended_at ? "ended" : "goes on"));
  const spot = of.kind === "spot" ? " on spot" : "";
  if (of.kind === "warm") return `${nameOf(of)}${whose && ` (${whose})`}: ${kept(of, end)}`;
  const held = `${slotsOf(of)}${spot} for ${lasting((end - Date.parse(of.admitted_at)) / 1000)}`;
  return `${nameOf(of)}${whose && ` (${whose})`}, attempt ${of.number}: ${held}; ${how}`;
}

export interface Tick {
  x: number;
  text: string;
}

const STEPS = [1 / 6, 1 / 2, 1, 5, 15, 30, 60, 180, 360, 720].map((minutes) => minutes * MINUTE);
const DAYS = [1, 2, 7, 14];
const BETWEEN = 90;

/** Round moments (UTC, as all that the queue says), with room between them. */
export function ticks({ from, to }: Span, width: number): Tick[] {
  const least = ((to - from) * BETWEEN) / Math.max(BETWEEN, width);
  const found: number[] = [];
  const step = STEPS.find((step) => step >= least);
  const days = DAYS.find((days) => days * DAY >= least);
  const begin = new Date(from);
  if (step) {
    for (let moment = Math.ceil(from / step) * step; moment < to; moment += step) found.push(moment);
  } else if (days) {
    for (let moment = Math.ceil(from / DAY) * DAY; moment < to; moment += days * DAY) found.push(moment);
  } else {
    const months = Math.max(1, Math.ceil(least / (30 * DAY)));
    for (let month = begin.getUTCMonth(); ; month += months) {
      const moment = Date.UTC(begin.getUTCFullYear(), month);
      if (moment >= to) break;
      found.push(moment);
    }
  }
  const [first, end] = !step ? (days ? [5, 10] : [0, 7]) : step < MINUTE ? [11, 19] : [11, 16];
  return found
    .filter((moment) => moment >= from)
    .map((moment) => ({ x: ((moment - from) / (to - from)) * width, text: new Date(moment).toISOString().slice(first, end) }));
}
