// What a view shows is asked for again and again while somebody looks at it.

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

/** Ask now, every `seconds`, and when `key` changes. Asks nothing while the page is hidden. */
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
  const [round, setRound] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const next = async () => {
      clearTimeout(timer);
      if (document.hidden) return;
      try {
        const value = await asking.current(stop.signal);
        if (!stop.signal.aborted) setState({ key, value, at: Date.now() });
      } catch (error) {
        if (!stop.signal.aborted)
          setState((old) => ({ ...(old.key === key ? old : { key, at: 0 }), trouble: error as Refusal }));
      }
      if (!stop.signal.aborted) timer = setTimeout(next, seconds * 1000);
    };
    void next();
    document.addEventListener("visibilitychange", next);
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", next);
    };
  }, [key, seconds, round]);
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
