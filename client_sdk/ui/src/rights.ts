// The caller's rights by the roles that the queue reports. Only that is offered, and what IAM has not refused already
// (`isDenied` of a call). The queue itself decides in any case.

import type { Job, Me } from "./api";

const MAY_CHANGE_ALL = new Set(["admin", "operator"]);

const roleIn = (me: Me, project: string): string | undefined =>
  (me.projects ?? []).find((view) => view.name === project)?.role;

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
  !me?.shared || (me.projects ?? []).some((project) => project.role !== "viewer");

/** Whether the caller may change pools and quotas. */
export const mayOperate = (me: Me | undefined): boolean => me?.operates ?? true;
