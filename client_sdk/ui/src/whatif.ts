// What a change of jobs would do: `slotq ui` runs the simulator, and the page shows its answer.

import { call } from "./api";

export interface Added {
  name: string;
  slots: number;
  pool: string;
  priority?: string;
  project?: string;
}

/** Changes at one moment. Each as the option of `slotq whatif` of that name. */
export interface Change {
  pools?: Record<string, number>;
  more?: Record<string, string>;
  settings?: Record<string, string>;
  quotas?: Record<string, string>;
  priorities?: Record<string, string>;
  moves?: Record<string, string[]>;
  cancels?: string[];
  holds?: string[];
  releases?: string[];
  adds?: Added[];
  hours?: number;
}

interface Moment {
  at: string;
  pool: string | null;
}

interface Now {
  what: string;
  pool: string | null;
}

/** The parts of `slotq whatif --json` that are shown. */
export interface Answer {
  at: string;
  withheld: number;
  now: { job: string; before: Now; after: Now }[];
  timeline: { job: string; event: string; before: Moment | null; after: Moment | null }[];
}

/** The whole answer, also in the words of the terminal. */
export interface WholeAnswer extends Answer {
  revision: number;
  /** The change of the configuration as a diff; empty: it stays. */
  diff: string;
  words: {
    head: string;
    quiet: string;
    same: string;
    now: { before: string; after: string }[];
    timeline: { event: string; before: string; after: string }[];
    worlds: { project: string; before: string; after: string }[];
    costs: { pool: string; kind: string; before: string; after: string }[];
    prices: string;
    partial: string[];
  };
}

const MOST = 6;

export const whatIf = (change: Change, signal: AbortSignal): Promise<WholeAnswer> =>
  call("POST", "/whatif", { body: change, signal, base: "/own" });

/** Put the change into force, if the configuration is still that of the answer. */
export const apply = (change: Change, revision: number): Promise<{ done: string[]; refused: string }> =>
  call("POST", "/whatif/apply", { body: { ...change, revision }, base: "/own" });

/** The effects as sentences: evicted jobs, jobs that start now, and jobs that start sooner or later. */
export function sentences(answer: Answer): string[] {
  const now = answer.now.filter((row) => row.before.what !== row.after.what);
  const found = [
    ...now.filter((row) => row.after.what === "evicted").map((row) => `${row.job} is evicted.`),
    ...now.filter((row) => row.before.what === "evicted").map((row) => `${row.job} is not evicted.`),
    ...now
      .filter((row) => row.after.what === "starts")
      .map((row) => `${row.job} starts now in ${row.after.pool}.`),
    ...now.filter((row) => row.before.what === "starts").map((row) => `${row.job} does not start now.`),
  ];
  const reported = new Set(now.map((row) => row.job));
  for (const row of answer.timeline)
    if (row.event === "start" && !reported.has(row.job)) {
      reported.add(row.job);
      found.push(`${row.job} starts ${when(row.after, answer.at)} instead of ${when(row.before, answer.at)}.`);
    }
  const rest = found.length - MOST;
  return rest > 0 ? [...found.slice(0, MOST), `And ${rest} more: slotq whatif shows all.`] : found;
}

function when(moment: Moment | null, from: string): string {
  if (!moment) return "not within 8 hours";
  const minutes = Math.round((Date.parse(moment.at) - Date.parse(from)) / 60_000);
  if (minutes < 1) return "now";
  return minutes < 60 ? `in ${minutes} min` : `in ${Math.round(minutes / 6) / 10} h`;
}
