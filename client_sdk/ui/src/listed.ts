// The pages of a list of jobs as one answer.

import { get, type Job, type JobsPage } from "./api";

/** The most jobs of one answer of the queue. */
export const MOST_AT_ONCE = 1000;
export interface Listed {
  jobs: Job[];
  /** Whether the queue has others. */
  more: boolean;
  /** How many were asked for. */
  most: number;
  /** How many the queue looked at. */
  examined: number;
}

let latest: { pages: JobsPage[]; listed: Listed } | undefined;

/**
 * The first `most` jobs, by one request for each thousand of them. Where filters fit few jobs, a page has few or none,
 * and so does the answer: it is asked for again and again, and must not cost the more the less it finds. The same
 * object as the time before, if all pages are.
 */
export async function jobsIn(asked: Record<string, string>, most: number, signal: AbortSignal): Promise<Listed> {
  const found = new Map<string, Job>();
  let next: string | null | undefined;
  const pages: JobsPage[] = [];
  do {
    const page = await get("/jobs", { ...asked, limit: String(MOST_AT_ONCE), ...(next ? { next } : {}) }, signal);
    for (const job of page.jobs) {
      found.delete(job.name); // It has changed its state since the page before.
      found.set(job.name, job);
    }
    next = page.next;
    pages.push(page);
  } while (next && pages.length < most / MOST_AT_ONCE);
  const same = latest?.listed.most === most && pages.every((page, n) => page === latest?.pages[n]);
  if (!same || latest?.pages.length !== pages.length)
    latest = { pages, listed: { jobs: [...found.values()], more: Boolean(next), most, examined: sum(pages) } };
  return latest!.listed;
}

const sum = (pages: JobsPage[]): number => pages.reduce((all, page) => all + (page.examined ?? 0), 0);
