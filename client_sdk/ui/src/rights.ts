// What the caller may do, as far as it is known: by the roles that the queue tells, and by what IAM has
// refused already. Only that is offered. The queue itself decides in any case.

import type { Job, Me } from "./api";

const MAY_CHANGE_ALL = new Set(["admin", "operator"]);

const roleIn = (me: Me, project: string): string | undefined =>
  (me.projects ?? []).find((each) => each.name === project)?.role;

/** Whether the job counts as the caller's own. */
export const isOwn = (me: Me, job: Job): boolean =>
  job.user === me.person || job.submitter === me.person || job.submitter === me.caller;

/** Whether the caller's role lets it cancel, hold and change the job. Without projects IAM alone decides. */
export function mayChange(me: Me | undefined, job: Job): boolean {
  if (!me || !me.shared || !job.project) return true;
  const role = roleIn(me, job.project);
  return MAY_CHANGE_ALL.has(role ?? "") || (role === "member" && isOwn(me, job));
}

/** Whether the caller may submit in some project. */
export const maySubmit = (me: Me | undefined): boolean =>
  !me?.shared || (me.projects ?? []).some((each) => each.role !== "viewer");

/** Whether the caller may change pools and quotas. */
export const mayOperate = (me: Me | undefined): boolean => me?.operates ?? true;

const denied = new Set<string>();

// `/jobs/a/request` → `/jobs/*/request`: what IAM judges, and not the name in it.
const route = (method: string, path: string): string =>
  `${method} ${path.split("?")[0]!.replace(/^(\/[^/]+)\/[^/]+/, "$1/*")}`;

/** IAM has refused this call: the same on another name is refused too. */
export const note = (method: string, path: string): void => void denied.add(route(method, path));

export const isDenied = (method: string, path: string): boolean => denied.has(route(method, path));
