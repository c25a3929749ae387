// The pages of a list of jobs as one answer.

import { get, type Job } from "./api";

/** The queue tells no more jobs at once. */
export const MOST_AT_ONCE = 1000;
/** Where filters fit few jobs, a page may have none: so many requests are made for one answer. */
const MOST_REQUESTS = 20;

export interface Listed {
  jobs: Job[];
  /** Whether the queue has others. */
  more: boolean;
  /** How many were asked for. */
  most: number;
}

/** The first `most` jobs, or fewer where the queue looks long for them. */
export async function jobsIn(asked: Record<string, string>, most: number, signal: AbortSignal): Promise<Listed> {
  const found = new Map<string, Job>();
  let next: string | null | undefined;
  let requests = 0;
  do {
    const limit = String(Math.min(MOST_AT_ONCE, most - found.size));
    const page = await get("/jobs", { ...asked, limit, ...(next ? { next } : {}) }, signal);
    for (const job of page.jobs) {
      found.delete(job.name); // It has changed its state since the page before.
      found.set(job.name, job);
    }
    next = page.next;
    requests++;
  } while (next && found.size < most && requests < MOST_REQUESTS);
  return { jobs: [...found.values()], more: Boolean(next), most };
}
