// The pages of a list of jobs as one answer.

import { get, type Job } from "./api";

/** The most jobs of one answer of the queue. */
export const MOST_AT_ONCE = 1000;
export interface Listed {
  jobs: Job[];
  /** Whether the queue has others. */
  more: boolean;
  /** How many were asked for. */
  most: number;
}

/**
 * The first `most` jobs, by one request for each thousand of them. Where filters fit few jobs, a page has few or none,
 * and so does the answer: it is asked for again and again, and must not cost the more the less it finds.
 */
export async function jobsIn(asked: Record<string, string>, most: number, signal: AbortSignal): Promise<Listed> {
  const found = new Map<string, Job>();
  let next: string | null | undefined;
  let requests = 0;
  do {
    const page = await get("/jobs", { ...asked, limit: String(MOST_AT_ONCE), ...(next ? { next } : {}) }, signal);
    for (const job of page.jobs) {
      found.delete(job.name); // It has changed its state since the page before.
      found.set(job.name, job);
    }
    next = page.next;
    requests++;
  } while (next && requests < most / MOST_AT_ONCE);
  return { jobs: [...found.values()], more: Boolean(next), most };
}
