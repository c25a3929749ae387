import type { Job } from "../api";

const WAITING = new Set(["pending", "preempted", "backoff", "held"]);
const ACTIVE = new Set(["starting", "running", "stopping"]);

export const waits = (job: Job): boolean => WAITING.has(job.state);
export const isActive = (job: Job): boolean => ACTIVE.has(job.state);

export function State({ job }: { job: Job }) {
  return <span class={`state ${job.state}`}>{job.state}</span>;
}

export function Priority({ job }: { job: Job }) {
  return <>{job.priority_class ? `${job.priority_class} (${job.priority})` : job.priority}</>;
}
