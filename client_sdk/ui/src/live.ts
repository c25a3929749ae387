// What a view shows is asked for again and again while somebody looks at it: often while it changes, more seldom while
// it does not and where the answer is long, and never while the page is hidden.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Refusal } from "./api";

export interface Live<Value> {
  /** The newest answer; kept while a later question fails. */
  value: Value | undefined;
  /** Why the latest question failed. */
  trouble: Refusal | undefined;
  /** When `value` came (ms). */
  at: number;
  refresh: () => void;
}

/** By how much each unchanged answer lengthens the pause, and up to how many seconds. */
const SLOWER = 1.5;
const SLOWEST = 15;
/** A question whose answer took more jobs than this costs the queue much. */
const MANY = 50;
/** Seconds after such an answer, and how many jobs add another one: about 250 read units a minute. */
const AFTER_MANY = 10;
const JOBS_A_SECOND = 25;
const LONGEST = 60;

/** Seconds until the next question, at least `seconds`. `unchanged`: how many answers in a row brought nothing new. */
export function pauseAfter(value: unknown, seconds: number, unchanged: number): number {
  const jobs = jobsFor(value);
  const long = jobs > MANY ? Math.min(LONGEST, AFTER_MANY + jobs / JOBS_A_SECOND) : 0;
  const least = Math.max(seconds, long);
  return Math.max(least, Math.min(SLOWEST, least * SLOWER ** unchanged));
}

/** How many jobs that are only looked at cost the queue as much as one that is shown. */
const EXAMINED = 4;

/** How many jobs the queue had to read for an answer: those that it shows or looked at, or those ahead of a waiting job,
 * of which it counts a few hundred. */
function jobsFor(value: unknown): number {
  const { jobs, place, examined } = (value ?? {}) as { jobs?: unknown; place?: number | null; examined?: number };
  const shown = Array.isArray(jobs) ? jobs.length : Math.min(place ?? 0, 400);
  return Math.max(shown, (examined ?? 0) / EXAMINED);
}

/**
 * Ask now, when `key` changes, when the page is shown again, and every `seconds` or more (`pauseAfter`). Asks nothing
 * while the page is hidden.
 */
export function useLive<Value>(
  key: string,
  ask: (signal: AbortSignal) => Promise<Value>,
  seconds = 3,
): Live<Value> {
  const [state, setState] = useState<{ key: string; value?: Value; trouble?: Refusal; at: number }>({
    key,
    at: 0,
  });
  const asking = useRef(ask);
  asking.current = ask;
  const every = useRef(seconds);
  every.current = seconds;
  const [round, setRound] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let last: Value | undefined;
    let unchanged = 0;
    let asks = false;
    const next = async () => {
      clearTimeout(timer);
      if (document.hidden || asks) return;
      asks = true;
      try {
        const value = await asking.current(stop.signal);
        unchanged = value === last ? unchanged + 1 : 0;
        last = value;
        if (!stop.signal.aborted) setState({ key, value, at: Date.now() });
      } catch (error) {
        if (!stop.signal.aborted)
          setState((old) => ({ ...(old.key === key ? old : { key, at: 0 }), trouble: error as Refusal }));
      }
      asks = false;
      if (!stop.signal.aborted) timer = setTimeout(next, pauseAfter(last, every.current, unchanged) * 1000);
    };
    const shown = () => {
      unchanged = -1; // Someone is looking again.
      void next();
    };
    void next();
    document.addEventListener("visibilitychange", shown);
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, [key, round]);
  const refresh = useCallback(() => setRound((old) => old + 1), []);
  const mine = state.key === key;
  return {
    value: mine ? state.value : undefined,
    trouble: mine ? state.trouble : undefined,
    at: state.at,
    refresh,
  };
}

/** The newest answer or refusal, which stays while a changed question waits for its own. */
export function useKnown<Value>(live: Live<Value>): Live<Value> {
  const known = useRef(live);
  if (live.value || live.trouble) known.current = live;
  return known.current;
}
