// When a waiting job will probably start: reckoned by the simulator in `slotq ui`, never by the page.

import { call } from "./api";
import { lasting } from "./words";

export interface Start {
  at: string;
  hours: number;
  /** Whether the reckoning has the job. */
  known: boolean;
  starts: string | null;
  /** Whether some running time is only the longest that a request allows. */
  at_most: boolean;
}

export const expected = (job: string, signal: AbortSignal): Promise<Start> =>
  call("POST", "/start", { base: "/own", body: { job }, signal });

/** The reckoning at the end of a job's story: `about 40 min`. `now`: ms. */
export function inShort(start: Start | undefined, now: number): string[] {
  if (!start?.starts) return [];
  const left = (Date.parse(start.starts) - now) / 1000;
  return left < 60 ? [] : [`${start.at_most ? "at most " : ""}about ${lasting(roughly(left))}`];
}

/** The reckoning as a sentence. `now`: ms. */
export function inAll(start: Start, now: number): string {
  if (!start.known) return "It is too far behind in the line to reckon when it starts.";
  if (!start.starts) return `By what is known it does not start within ${start.hours} hours.`;
  const left = (Date.parse(start.starts) - now) / 1000;
  if (left < 60) return "By what is known it starts within a minute.";
  const most = start.at_most ? "at most " : "";
  return `By what is known it starts in ${most}about ${lasting(roughly(left))}, if nothing else comes.`;
}

/** To whole minutes, from an hour on to five: nothing here is known to the second. */
const roughly = (seconds: number): number => {
  const step = seconds < 3600 ? 60 : 300;
  return Math.round(seconds / step) * step;
};
