// Calls of the queue's API (/api), through `slotq ui`, which signs them, and of its own server (/own).

import type { components } from "./api.d";
import { released } from "./press";

type Schemas = components["schemas"];
export type Job = Schemas["JobView"];
export type Attempt = Schemas["AttemptView"];
export type AttemptsPage = Schemas["AttemptsPageView"];
export type HeldSlots = Schemas["HeldSlotsView"];
export type Pool = Schemas["PoolView"];
export type KeptNode = Schemas["NodeView"];
export type JobOnNode = Schemas["NodeJobView"];
export type Project = Schemas["ProjectView"];
export type Quota = Schemas["UserQuotaView"];
export type Reason = Schemas["ReasonView"];
export type Change = Schemas["ChangeView"];
export type Me = Schemas["MeView"];
export type Group = Schemas["GroupView"];
export type Sweep = Schemas["SweepView"];
export type Trial = Schemas["TrialView"];
export type GroupSummary = Schemas["GroupSummaryView"];
export type JobsPage = Schemas["QueueView"];
export type Answers = {
  "/jobs": JobsPage;
  "/pools": Schemas["PoolsView"];
  "/nodes": Schemas["NodesView"];
  "/attempts": AttemptsPage;
  "/projects": Schemas["ProjectsView"];
  "/quota": Schemas["QuotasView"];
  "/configuration": Schemas["ConfigurationView"];
  "/changes": Schemas["ChangesView"];
  "/me": Me;
  "/groups": Schemas["GroupsView"];
};

/** A call that the queue, or the way to it, refused. The message is for people. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly field = "",
  ) {
    super(message);
  }
}

const denied = new Set<string>();

// `/jobs/a/request` → `/jobs/*/request`: what IAM judges, and not the name in it.
const route = (method: string, path: string): string =>
  `${method} ${path.split("?")[0]!.replace(/^(\/[^/]+)\/[^/]+/, "$1/*")}`;

/** IAM has refused this call: the same on another name is refused too. */
const note = (method: string, path: string): void => void denied.add(route(method, path));

export const isDenied = (method: string, path: string): boolean => denied.has(route(method, path));

const TOKEN = "slotq-token";

/** Take the token out of the address, where it would be copied, and keep it for this origin. */
export function takeToken(): void {
  const found = /^#token=([\w-]+)$/.exec(location.hash);
  if (!found) return;
  localStorage.setItem(TOKEN, found[1]!);
  history.replaceState(null, "", location.pathname + location.search);
}

interface Options {
  body?: unknown;
  signal?: AbortSignal;
  base?: "/api" | "/own";
}
type Method = "GET" | "POST" | "PATCH" | "DELETE";

/** The answer, once the pointer is released: no answer moves what somebody is about to click. */
export async function call<Answer>(method: Method, path: string, options: Options = {}): Promise<Answer> {
  const answer = await exchanged<Answer>(method, path, options).finally(released);
  options.signal?.throwIfAborted();
  return answer;
}

/** The latest answers that have a tag, by path: the queue need not send them again. */
const kept = new Map<string, { tag: string; text: string; value: unknown }>();
/** Each has at most about 1 MB. */
const MOST_KEPT = 12;

/** The same object as before where nothing has changed. */
function remembered(path: string, tag: string, text: string, value: unknown): unknown {
  const before = kept.get(path);
  const same = before?.text === text ? before.value : value;
  kept.delete(path);
  kept.set(path, { tag, text, value: same });
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value!);
  return same;
}

async function exchanged<Answer>(method: Method, path: string, { body, signal, base = "/api" }: Options): Promise<Answer> {
  const headers: Record<string, string> = {
    Authorization: `Bearer ${localStorage.getItem(TOKEN) ?? ""}`,
  };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const before = method === "GET" ? kept.get(path) : undefined;
  if (before) headers["If-None-Match"] = before.tag;
  let response: Response;
  try {
    response = await fetch(base + path, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal ? { signal } : {}),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal(0, "gone", "slotq ui has ended: run it again in the terminal.");
  }
  if (response.status === 304 && before) return before.value as Answer;
  const text = await response.text();
  const said = parsed(text);
  if (response.ok) {
    const tag = method === "GET" ? response.headers.get("ETag") : null;
    return (tag ? remembered(path, tag, text, said) : said) as Answer;
  }
  const { code, message, field } = (said ?? {}) as Partial<Schemas["ErrorView"]>;
  // IAM refuses before the queue is asked, and so without a code of the queue's.
  if (response.status === 403 && !code && base === "/api") note(method, path);
  throw new Refusal(
    response.status,
    code ?? "unexpected",
    message ?? `The queue answered with ${response.status}.`,
    field,
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

export const get = <Path extends keyof Answers>(
  path: Path,
  query: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<Answers[Path]> => {
  const asked = new URLSearchParams(query).toString();
  return call("GET", asked ? `${path}?${asked}` : path, signal ? { signal } : {});
};

export const ofGroup = (name: string): string => `/groups/${encodeURIComponent(name)}`;

/** A group with all its members: those with much text come in pages. */
export async function wholeGroup(name: string, signal: AbortSignal): Promise<Group> {
  const whole = await call<Group>("GET", ofGroup(name), { signal });
  if (!whole.next) return whole;
  const jobs = [...whole.jobs];
  let next: Group["next"] = whole.next;
  while (next) {
    const page: Group = await call("GET", `${ofGroup(name)}?next=${encodeURIComponent(next)}`, { signal });
    jobs.push(...page.jobs);
    next = page.next;
  }
  return { ...whole, jobs, next: null };
}

export const ofJob = (name: string, rest = ""): string => `/jobs/${encodeURIComponent(name)}${rest}`;
