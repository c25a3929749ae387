// The queue at a glance: each pool as a bar, what runs in it, and its line in the true order.

import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { get, ofJob, type Job, type Pool } from "../api";
import { MOST_AT_ONCE } from "../listed";
import { pauseAfter, useKnown, useLive } from "../live";
import { Bar, Legend, type Piece } from "../parts/bar";
import { Rows, type Column } from "../parts/rows";
import { Done } from "../parts/progress";
import { isActive, Priority, State, waits } from "../parts/state";
import { Trouble } from "../parts/trouble";
import { clock, counted, ordinal, person, since } from "../words";
import { Nodes } from "./nodes";
import { Tiles } from "./tiles";

export const NOT_ENDED = "pending,preempted,backoff,held,starting,running,stopping";
/** How many jobs are shown at first, and how many more each time: they cost the queue what is shown. */
const AT_FIRST = 200;

export function Queue() {
  const [most, setMost] = useState(AT_FIRST);
  // In the true order, with places.
  const asked = { state: NOT_ENDED, places: "true", limit: String(most) };
  const live = useLive(`queue ${most}`, (signal) => get("/jobs", asked, signal));
  const jobs = useKnown(live);
  const pace = pauseAfter(jobs.value, 3, 0);
  const pools = useLive("pools", (signal) => get("/pools", {}, signal), pace);
  const more = jobs.value?.more ?? false;
  const now = Math.max(jobs.at, pools.at);
  return (
    <>
      <h1 class="unseen">Queue</h1>
      <Trouble of={[pools, jobs]} />
      {pools.value && jobs.value && <Tiles pools={pools.value.pools} jobs={jobs.value} pace={pace} />}
      {pools.value?.pools.map((pool) => (
        <PoolPanel key={pool.name} pool={pool} jobs={jobs.value?.jobs ?? []} more={more} now={now} />
      ))}
      {pools.value?.pools.some((pool) => pool.settings.nodes) && <Nodes pace={pace} />}
      {more && (
        <div class="actions">
          <p role="status">Shown are the first {counted(jobs.value?.jobs.length ?? 0, "job")} of the queue.</p>
          {most < MOST_AT_ONCE && (
            <button type="button" disabled={!live.value} onClick={() => setMost(most + AT_FIRST)}>
              {live.value ? "Show more" : "Loading …"}
            </button>
          )}
        </div>
      )}
      {pools.value?.pools.length === 0 && (
        <p class="empty">The queue has no pools yet. An operator adds them with slotq config apply.</p>
      )}
    </>
  );
}

function PoolPanel({ pool, jobs, more, now }: { pool: Pool; jobs: Job[]; more: boolean; now: number }) {
  const here = jobs.filter((job) => isActive(job) && job.pool === pool.name);
  // In the order of the answer: a place counts the jobs of all the job's pools, and says nothing beside those of others.
  const line = jobs.filter((job) => waits(job) && job.pools.includes(pool.name)).sort(placedFirst);
  const pieces = piecesOf(pool, here);
  const size = pool.size.slots ?? 0;
  return (
    <section class="pool" aria-labelledby={`pool-${pool.name}`}>
      <h2 id={`pool-${pool.name}`}>
        {pool.name} <small>{counted(size, "slot")} of {pool.instance_type}{boughtAs(pool)}</small>
        {pool.settings.state !== "active" && <span class="state held">{pool.settings.state}</span>}
      </h2>
      <Bar pieces={pieces} total={size} label={pieces.map((piece) => `${piece.amount} ${piece.name}`).join(", ")} />
      <Legend pieces={pieces} />
      {hoursOf(pool) && <p>{hoursOf(pool)}</p>}
      {reservedIn(pool) && <p>{reservedIn(pool)}</p>}
      {warmOf(pool) && <p>{warmOf(pool)}</p>}
      {troubleOf(pool) && <p class="trouble">{troubleOf(pool)}</p>}
      <h3>Runs</h3>
      <Rows
        label={`What runs in ${pool.name}`}
        rows={here}
        columns={running(now)}
        keyOf={(job) => job.name}
        empty="Nothing runs here."
      />
      <h3>
        Waits <small>{counted(line.length, "job")}{more && " and more"}</small>
      </h3>
      <Rows
        label={`The line of ${pool.name}`}
        rows={line}
        columns={waiting(now)}
        keyOf={(job) => job.name}
        empty="No jobs wait."
      />
    </section>
  );
}

/** How the pool's instances are bought, if not on demand. */
export function boughtAs({ settings }: Pool): string {
  const kind = settings.capacity_kind ?? "on_demand";
  return kind === "on_demand" ? "" : `, ${kind}`;
}

/** Until when the pool is open, or when it opens; empty: it is always open. */
export function hoursOf({ hours, capacity }: Pool): string {
  if (hours == null) return "";
  if (hours.why) return `No slots: ${hours.why}.`;
  if (hours.slots === 0) return hours.moment ? `Opens at ${hours.moment}.` : "Closed.";
  const offers = hours.slots < (capacity.slots ?? 0) ? `Offers ${counted(hours.slots, "slot")}` : "Open";
  if (hours.then == null) return `${offers}.`;
  return `${offers} until ${hours.moment}${hours.then > 0 ? `, then ${counted(hours.then, "slot")}` : ""}.`;
}

/** What is reserved now, and what comes next; empty: nothing. */
export function reservedIn({ reserved }: Pool): string {
  const next = (reserved ?? []).find(({ in_force }) => !in_force);
  const shown = [...(reserved ?? []).filter(({ in_force }) => in_force), ...(next ? [next] : [])];
  return shown
    .map(({ slots, project, in_force, moment }) => `${counted(slots, "slot")} reserved for ${project} ${in_force ? "until" : "from"} ${moment}.`)
    .join(" ");
}

/** Which instances stay warm, and what becomes of the others; empty: none do. */
export function warmOf({ warm }: Pool): string {
  const slots = (state: string) => (warm ?? []).filter((slot) => slot.state === state).reduce((sum, slot) => sum + slot.slots, 0);
  const idle = (warm ?? []).filter(({ state }) => state === "idle").map(({ until }) => until).sort();
  return [
    idle.length && `${counted(slots("idle"), "slot")} warm for matching jobs, until ${clock(idle.at(-1)!)} at the latest.`,
    slots("releasing") && `${counted(slots("releasing"), "warm slot")} being released.`,
    slots("reused") && `${counted(slots("reused"), "warm slot")} used outside the queue.`,
  ]
    .filter(Boolean)
    .join(" ");
}

/** What SageMaker's refusals have shown of the pool, and until when; empty if nothing. */
export function troubleOf({ capacity, foreign, health, hours, size }: Pool): string {
  const said: string[] = [];
  const unhealthy = health.plan?.unhealthy ?? 0;
  if (unhealthy > 0) said.push(`${counted(unhealthy, "instance")} of the training plan ${unhealthy === 1 ? "is" : "are"} unhealthy.`);
  const shrunk = (size.slots ?? 0) + (foreign.slots ?? 0) + unhealthy < (hours?.slots ?? capacity.slots ?? 0);
  if (shrunk && health.learned != null && health.learned_until != null)
    said.push(`The account allows ${counted(health.learned, "slot")} until ${clock(health.learned_until)}.`);
  if (health.errors > 0 && health.not_before != null) said.push(`Next try at ${clock(health.not_before)}.`);
  if (said.length > (unhealthy > 0 ? 1 : 0) || health.errors > 0) said.push(health.message ?? "");
  return said.join(" ").trim();
}

const placedFirst = (one: Job, other: Job): number => Number(!one.place) - Number(!other.place);

export function piecesOf(pool: Pool, here: Job[]): Piece[] {
  const size = pool.size.slots ?? 0;
  const used = pool.used.slots ?? 0;
  const stopping = here
    .filter((job) => job.state === "stopping" && !job.node)
    .reduce((sum, job) => sum + (job.demand.slots ?? 0), 0);
  return [
    { kind: "used", name: "used", amount: Math.max(0, used - stopping) },
    { kind: "stopping", name: "stopping", amount: stopping },
    { kind: "foreign", name: "used outside the queue", amount: pool.foreign.slots ?? 0 },
    { kind: "free", name: "free", amount: Math.max(0, size - used) },
  ];
}

export const jobLink = (job: Job) => <Link href={ofJob(job.name)}>{job.name}</Link>;

const common: Column<Job>[] = [
  { name: "Project", cell: (job) => job.project, of: (job) => job.project },
  { name: "Who", cell: (job) => person(job.user || job.submitter) },
];

/** The slots of a job, or what it has of a node or waits for. */
export const held = (job: Job): string | number =>
  job.gpus ? `${counted(job.gpus, "GPU")}${job.node ? ` of ${job.node}` : ""}` : (job.demand.slots ?? 0);

const running = (now: number): Column<Job>[] => [
  { name: "Job", cell: jobLink, kind: "main" },
  { name: "State", cell: (job) => <State job={job} />, plain: true },
  { name: "Slots", cell: held, kind: "number" },
  { name: "Priority", cell: (job) => <Priority job={job} />, kind: "number" },
  { name: "For", cell: (job) => since(job.changed_at, now), kind: "number" },
  { name: "Progress", cell: (job) => <Done progress={job.progress} />, of: (job) => job.progress, plain: true },
  ...common,
];

/** The place in this line. A job that is in several lines has one in each. */
const place = (job: Job, index: number): string => (job.place ? ordinal(index + 1) : "");

const waiting = (now: number): Column<Job>[] => [
  { name: "Place", cell: place, kind: "number", plain: true },
  { name: "Job", cell: jobLink, kind: "main" },
  { name: "Slots", cell: held, kind: "number" },
  { name: "Priority", cell: (job) => <Priority job={job} />, kind: "number" },
  { name: "Waits", cell: (job) => since(job.entry_time, now), kind: "number" },
  { name: "Why", cell: (job) => job.reason?.text ?? job.state, kind: "why" },
  ...common,
];
