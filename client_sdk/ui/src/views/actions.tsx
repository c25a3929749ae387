// What the caller may do with a job. Each asks for a confirmation that says what will happen.

import { useLocation } from "wouter-preact";
import { call, isDenied, ofJob, type Job, type Me } from "../api";
import { Deeds, type Question } from "../parts/confirmation";
import { isOwn, mayChange, maySubmit } from "../rights";
import { VERBS, type Verb } from "../verbs";
import type { Change } from "../whatif";

interface Deed {
  name: string;
  /** What will happen, as a sentence. */
  says: string;
  method: "PATCH" | "DELETE";
  body?: (value: string) => unknown;
  /** The same for the simulator, which forecasts starts and evictions. */
  change?: (value: string) => Change;
  /** The value to enter, with the present one. */
  asks?: { label: string; value: string };
}

/** What is offered for a job in its state. */
export const deeds = (job: Job): Deed[] =>
  VERBS.flatMap((verb) => {
    const offer = verb.offers.find(({ states }) => states.includes(job.state));
    return offer ? [deedOf(job, verb, offer.says)] : [];
  });

function deedOf(job: Job, verb: Verb, says: string): Deed {
  const { label, takes, simulated } = verb;
  return {
    name: titled(verb.name),
    says,
    ...(verb.key === "cancel" ? { method: "DELETE" } : { method: "PATCH", body: (value) => bodyOf(job, verb, value) }),
    ...(simulated && { change: (value) => changeOf(simulated, [job.name], takes, value) }),
    ...(label && { asks: { label, value: present(job, verb) } }),
  };
}

export const titled = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1);

function bodyOf(job: Job, { key, value, tag, ofAttempt, takes }: Verb, text: string): unknown {
  if (value !== undefined) return { [key]: value };
  if (ofAttempt) return { [key]: job.attempts_begun };
  const said = read(takes, text);
  return { [key]: tag ? { [tag]: said } : said };
}

/** The entered text in the queue's form. */
const read = (takes: string | undefined, text: string): string =>
  takes === "pools" ? text.replaceAll(" ", "") : text.trim();

/** The change of these jobs for the simulator: their names, or the new value of each. */
export function changeOf(key: string, names: string[], takes: string | undefined, text: string): Change {
  const said = read(takes, text);
  const value = takes === "pools" ? said.split(",") : said;
  return { [key]: takes ? Object.fromEntries(names.map((name) => [name, value])) : names };
}

/** The present value of what the verb changes. */
function present(job: Job, { key, takes }: Verb): string {
  if (takes === "priority") return job.priority_class || String(job.priority);
  if (takes === "pools") return job.pools.join(",");
  return String((job as Record<string, unknown>)[key] ?? "");
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

/** Submit the job's request once more, which only its submitter may read whole. Opens the new job. */
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
