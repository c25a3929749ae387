// What the caller may do with a job. Each asks for a confirmation that says what will happen.

import { useLocation } from "wouter-preact";
import { call, ofJob, type Job, type Me } from "../api";
import { Deeds, type Question } from "../parts/confirmation";
import { isActive, waits } from "../parts/state";
import { isDenied, isOwn, mayChange, maySubmit } from "../rights";
import type { Change } from "../whatif";

interface Deed {
  name: string;
  /** What will happen, as a sentence. */
  says: string;
  method: "PATCH" | "DELETE";
  body?: (value: string) => unknown;
  /** The same for the simulator, which tells beforehand who would start and be evicted. */
  change?: (value: string) => Change;
  /** What else must be said, with its present value. */
  asks?: { label: string; value: string };
}

export function deeds(job: Job): Deed[] {
  const found: Deed[] = [];
  if (job.state === "held")
    found.push({
      name: "Release",
      says: "The job may start again. Its place is that of its entry time.",
      method: "PATCH",
      body: () => ({ held: false }),
      change: () => ({ releases: [job.name] }),
    });
  else if (waits(job))
    found.push({
      name: "Hold",
      says: "The job does not start until it is released. It keeps its entry time.",
      method: "PATCH",
      body: () => ({ held: true }),
      change: () => ({ holds: [job.name] }),
    });
  if (waits(job) || isActive(job))
    found.push({
      name: "Priority",
      says: waits(job)
        ? "The job moves in its lines at once. With a higher priority it may evict others."
        : "With a lower priority the job may be evicted for others.",
      method: "PATCH",
      body: (value) => ({ tags: { priority: value.trim() } }),
      change: (value) => ({ priorities: { [job.name]: value.trim() } }),
      asks: { label: "New priority", value: job.priority_class || String(job.priority) },
    });
  if (waits(job))
    found.push({
      name: "Move",
      says: "The job accepts these pools from now on, the most welcome first.",
      method: "PATCH",
      body: (value) => ({ tags: { "slotq:pools": value.replaceAll(" ", "") } }),
      change: (value) => ({ moves: { [job.name]: value.replaceAll(" ", "").split(",") } }),
      asks: { label: "Pools, separated by commas", value: job.pools.join(",") },
    });
  if (waits(job))
    found.push({
      name: "Cancel",
      says: "The job ends and does not run.",
      method: "DELETE",
      change: () => ({ cancels: [job.name] }),
    });
  if (job.state === "starting" || job.state === "running")
    found.push({
      name: "Requeue",
      says: "Its training job is stopped. The job waits again, at its entry time and with its checkpoints.",
      method: "PATCH",
      body: () => ({ give_up: job.attempts_begun }),
    });
  if (isActive(job))
    found.push({
      name: "Cancel",
      says: "Its training job is stopped, and the job does not run again. What it has not saved is lost.",
      method: "DELETE",
      change: () => ({ cancels: [job.name] }),
    });
  return found;
}

/** What the caller may do with the job. */
export const permitted = (job: Job, me: Me | undefined): Deed[] =>
  mayChange(me, job) ? deeds(job).filter((deed) => !isDenied(deed.method, ofJob(job.name))) : [];

export function Actions({ job, me, done }: { job: Job; me: Me | undefined; done: () => void }) {
  const [, go] = useLocation();
  const questions = permitted(job, me).map((deed) => questionOf(job, deed));
  const own = !me || isOwn(me, job);
  if (own && maySubmit(me) && !isDenied("POST", "/add-job")) questions.push(clone(job, go));
  return <Deeds of={questions} done={done} />;
}

const questionOf = (job: Job, { method, body, ...rest }: Deed): Question => ({
  ...rest,
  title: `${rest.name}: ${job.name}`,
  act: (value) => call(method, ofJob(job.name), body ? { body: body(value) } : {}),
});

/** The job's request once more, which only its submitter may read whole. Leads to the new job. */
const clone = (job: Job, go: (path: string) => void): Question => ({
  name: "Clone",
  title: `Clone: ${job.name}`,
  says: "Its request is submitted once more, as yours, under another name.",
  asks: { label: "Name of the new job", value: `${job.name.slice(0, 60)}-2` },
  act: async (value) => {
    const made = await call<Job>("POST", "/clone", { base: "/own", body: { name: job.name, new_name: value.trim() } });
    go(ofJob(made.name));
  },
});
