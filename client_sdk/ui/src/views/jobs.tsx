// All jobs, the ended ones too, with search and filters in the address.

import { useLocation } from "wouter-preact";
import { useFilter } from "../address";
import { get, ofJob, type Job } from "../api";
import { useLive } from "../live";
import { Rows, type Column } from "../parts/rows";
import { Priority, State } from "../parts/state";
import { Trouble } from "../parts/trouble";
import { person, since } from "../words";
import { jobLink, NOT_ENDED } from "./queue";

const NAME = /^[a-zA-Z0-9][a-zA-Z0-9-]{0,62}$/;

const STATES: [string, string][] = [
  ["", "not ended"],
  ["running,starting,stopping", "run"],
  ["pending,preempted,backoff,held", "wait"],
  ["completed", "completed"],
  ["failed,stopped,cancelled", "failed, stopped or cancelled"],
];

/** The queue returns no more at once. */
const MOST = 1000;

export function Jobs() {
  const [search, setSearch] = useFilter("search");
  const [state, setState] = useFilter("state");
  const [project, setProject] = useFilter("project");
  const [pool, setPool] = useFilter("pool");
  const [who, setWho] = useFilter("who");
  const [, go] = useLocation();
  const asked: Record<string, string> = { state: state || NOT_ENDED, limit: String(MOST) };
  if (project) asked.project = project;
  if (pool) asked.pool = pool;
  if (who) asked.submitter = who;
  const jobs = useLive(JSON.stringify(asked), (signal) => get("/jobs", asked, signal));
  const found = (jobs.value?.jobs ?? []).filter((job) => matches(job, search));
  return (
    <>
      <h1>Jobs</h1>
      <form
        class="filters"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          // A name that is not among those shown may still be a job's.
          if (found.length === 0 && NAME.test(search.trim())) go(ofJob(search.trim()));
        }}
      >
        <label>
          Search
          <input type="search" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        </label>
        <label>
          State
          <select value={state} onChange={(event) => setState(event.currentTarget.value)}>
            {STATES.map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          Project
          <input value={project} onChange={(event) => setProject(event.currentTarget.value)} />
        </label>
        <label>
          Pool
          <input value={pool} onChange={(event) => setPool(event.currentTarget.value)} />
        </label>
        <label>
          Who
          <input value={who} onChange={(event) => setWho(event.currentTarget.value)} />
        </label>
      </form>
      <Trouble of={[jobs]} />
      {(jobs.value?.jobs.length ?? 0) >= MOST && (
        <p class="empty">
          The queue tells {MOST.toLocaleString("en")} jobs at once: choose a state, a project, a pool or a person to see
          others. A whole name and Enter leads to any job.
        </p>
      )}
      {jobs.value && (
        <Rows
          label="Jobs"
          rows={found}
          columns={columns(jobs.at)}
          keyOf={(job) => job.name}
          empty="No job fits this search."
        />
      )}
    </>
  );
}

export function matches(job: Job, search: string): boolean {
  const text = [job.name, job.project, job.submitter, job.pool, ...job.pools].join(" ").toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

const columns = (now: number): Column<Job>[] => [
  { name: "Job", cell: jobLink, kind: "main" },
  { name: "State", cell: (job) => <State job={job} /> },
  { name: "Pool", cell: (job) => job.pool ?? job.pools.join(", "), kind: "wide" },
  { name: "Slots", cell: (job) => job.demand.slots ?? 0, kind: "number" },
  { name: "Priority", cell: (job) => <Priority job={job} />, kind: "number" },
  { name: "Since", cell: (job) => since(job.changed_at, now), kind: "number" },
  { name: "Evictions", cell: (job) => job.evictions || "", of: (job) => job.evictions, kind: "wide" },
  { name: "Project", cell: (job) => job.project, of: (job) => job.project, kind: "wide" },
  { name: "Who", cell: (job) => person(job.user || job.submitter), kind: "wide" },
];
