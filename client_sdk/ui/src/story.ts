// One job's life in sentences: "waited 12 min, ran 3 h, evicted for urgent-eval, waits: 2nd in line".

import type { Attempt, Job } from "./api";
import { lasting, ordinal } from "./words";

/** The chapters of a job's life so far, the first first. `now`: ms. */
export function story(job: Job, now: number): string[] {
  const chapters: string[] = [];
  let waitedSince = Date.parse(job.entry_time);
  for (const attempt of job.attempts ?? []) {
    const began = Date.parse(attempt.admitted_at);
    chapters.push(`waited ${lasting((began - waitedSince) / 1000)}`);
    if (attempt.ended_at === null) {
      chapters.push(goesOn(attempt, job, now));
      return chapters;
    }
    const ended = Date.parse(attempt.ended_at);
    if (attempt.running_since) chapters.push(`ran ${lasting((ended - Date.parse(attempt.running_since)) / 1000)}`);
    chapters.push(ending(attempt));
    waitedSince = ended;
  }
  const last = rest(job, waitedSince, now);
  if (chapters.at(-1) !== last) chapters.push(last);
  return chapters;
}

function goesOn(attempt: Attempt, job: Job, now: number): string {
  if (job.state === "stopping") return attempt.stopped_for ? `is being stopped for ${attempt.stopped_for}` : "is being stopped";
  if (!attempt.running_since) return `starts in ${attempt.pool}`;
  return `has run ${lasting((now - Date.parse(attempt.running_since)) / 1000)} in ${attempt.pool}`;
}

function ending(attempt: Attempt): string {
  const of = attempt.stopped_for;
  switch (attempt.outcome) {
    case "evicted":
      return of ? `evicted for ${of}` : "evicted";
    case "cancelled":
      return of ? `cancelled by ${of}` : "cancelled";
    case "completed":
      return "completed";
    default:
      return attempt.outcome ? attempt.outcome.replaceAll("_", " ") : "ended";
  }
}

function rest(job: Job, since: number, now: number): string {
  switch (job.state) {
    case "pending":
    case "preempted":
      return job.place
        ? `waits: ${job.place_is_lower_bound ? "at least " : ""}${ordinal(job.place)} ${line(job)}`
        : `waits for ${lasting((now - since) / 1000)}`;
    case "backoff":
      return "waits until it is tried again";
    case "held":
      return "is held";
    default:
      return job.state;
  }
}

/** Whose line it is: of several pools, all count that wait for one of them. */
const line = ({ pools }: Job): string => (pools.length === 1 ? `in ${pools[0]}` : `in the line of ${pools.join(", ")}`);
