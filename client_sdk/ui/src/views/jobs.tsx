// All jobs, the ended ones too, with search and filters in the address.

import { useFilter } from "../address";
import { get, type Job } from "../api";
import { useLive } from "../live";
import { Rows, type Column } from "../parts/rows";
import { Priority, State } from "../parts/state";
import { Trouble } from "../parts/trouble";
import { person, since } from "../words";
import { jobLink, NOT_ENDED } from "./queue";

const STATES: [string, string][] = [
  ["", "not ended"],
  ["running,starting,stopping", "run"],
  ["pending,preempted,backoff,held", "wait"],
  ["completed", "completed"],
  ["failed,stopped,cancelled", "failed, stopped or cancelled"],
];

export function Jobs() {
  const [search, setSearch] = useFilter("search");
  const [state, setState] = useFilter("state");
  const [project, setProject] = useFilter("project");
  const asked: Record<string, string> = { state: state || NOT_ENDED, limit: "1000" };
  if (project) asked.project = project;
  const jobs = useLive(JSON.stringify(asked), (signal) => get("/jobs", asked, signal));
  const found = (jobs.value?.jobs ?? []).filter((job) => matches(job, search));
  return (
    <>
      <h1>Jobs</h1>
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
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
      </form>
      <Trouble of={[jobs]} />
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
