// The attempts of a window. A later look keeps what is settled, and asks only for what is new.

import { get, Refusal, type AttemptsPage, type HeldSlots } from "./api";

export const MOST_ATTEMPTS = 5_000;
const MOST_PAGES = 20;

export interface Look {
  /** All pages as one, up to MOST_ATTEMPTS; `next` stays where there is more. */
  page: AttemptsPage;
  kept: Kept;
}

/** What no later look changes. */
interface Kept {
  attempts: HeldSlots[];
  gone: number;
  unreadable: number;
  /** The cursor of the next request; undefined: from the beginning. */
  next: string | undefined;
}

const NOTHING: Kept = { attempts: [], gone: 0, unreadable: 0, next: undefined };

/** The attempts that were asked for. `before`: what the same question was answered before. */
export async function attemptsIn(asked: Record<string, string>, signal: AbortSignal, before?: Look): Promise<Look> {
  if (!before?.kept.next) return read(asked, signal, NOTHING);
  if (before.kept.attempts.length >= MOST_ATTEMPTS && asked.from) return before;
  try {
    return await read(asked, signal, before.kept);
  } catch (error) {
    if (error instanceof Refusal && error.field === "next") return read(asked, signal, NOTHING);
    throw error;
  }
}

async function read(asked: Record<string, string>, signal: AbortSignal, before: Kept): Promise<Look> {
  const question = (next?: string | null) => get("/attempts", { ...asked, ...(next ? { next } : {}) }, signal);
  let page = await question(before.next);
  // The window has moved on, if it ends now.
  const attempts = before.attempts.filter((of) => !of.ended_at || Date.parse(of.ended_at) > Date.parse(page.start));
  let { gone, unreadable } = before;
  let kept: Kept = { ...before, attempts };
  let isSettled = true;
  const window = { ...asked, from: page.start, to: page.end };
  for (let pages = 1; ; pages++) {
    if (isSettled && page.settled) {
      const { settled } = page;
      kept = {
        attempts: [...attempts, ...page.attempts.slice(0, settled.attempts)],
        gone: gone + settled.gone,
        unreadable: unreadable + settled.unreadable,
        next: settled.next,
      };
    }
    isSettled &&= Boolean(page.next) && page.settled?.next === page.next;
    attempts.push(...page.attempts);
    gone += page.gone;
    unreadable += page.unreadable;
    if (!page.next || attempts.length >= MOST_ATTEMPTS || pages >= MOST_PAGES) break;
    page = await get("/attempts", { ...window, next: page.next }, signal);
  }
  return { page: { ...page, attempts, gone, unreadable }, kept };
}
