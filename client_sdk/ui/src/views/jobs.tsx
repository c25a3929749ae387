// All jobs, the ended ones too, with search and filters in the address.

import { useLocation } from "wouter-preact";
import { useFilter } from "../address";
import { useState } from "preact/hooks";
import { ofJob, type Job } from "../api";
import { jobsIn, MOST_AT_ONCE } from "../listed";
import { useKnown, useLive } from "../live";
import { Rows, type Column } from "../parts/rows";
import { Priority, State } from "../parts/state";
import { Trouble } from "../parts/trouble";
import { counted, person, since } from "../words";
import { jobLink, NOT_ENDED } from "./queue";

const NAME = /^[a-zA-Z0-9][a-zA-Z0-9-]{0,62}$/;

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
  const [pool, setPool] = useFilter("pool");
  const [who, setWho] = useFilter("who");
  const [, go] = useLocation();
  const asked: Record<string, string> = { state: state || NOT_ENDED };
  if (project) asked.project = project;
  if (pool) asked.pool = pool;
  if (who) asked.submitter = who;
  const question = JSON.stringify(asked);
  const [wanted, setWanted] = useState({ question, most: MOST_AT_ONCE });
  const most = wanted.question === question ? wanted.most : MOST_AT_ONCE;
  const live = useLive(question, (signal) => jobsIn(asked, most, signal));
  // A filter changes when its field loses the focus, as by a press on one of these jobs: all stays until the answer.
  const jobs = useKnown(live);
  const listed = jobs.value;
  const found = (listed?.jobs ?? []).filter((job) => matches(job, search));
  const showMore = () => {
    setWanted({ question, most: most + MOST_AT_ONCE });
    live.refresh();
  };
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
      {listed && (
        <Rows
          label="Jobs"
          rows={found}
          columns={columns(jobs.at || Date.now())}
          keyOf={(job) => job.name}
          empty={listed.more ? "None of these jobs fits this search." : "No job fits this search."}
        />
      )}
      {listed?.more && (
        <div class="actions">
          <p role="status">
            {search ? "Searched" : "Shown"} are the first {counted(listed.jobs.length, "job")}; the queue may have more.
            A whole name and Enter leads to any job.
          </p>
          <button type="button" disabled={listed.most < most} onClick={showMore}>
            {listed.most < most ? "Loading …" : "Show more"}
          </button>
        </div>
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
  { name: "State", cell: (job) => <State job={job} />, plain: true },
  { name: "Pool", cell: (job) => job.pool ?? job.pools.join(", ") },
  { name: "Slots", cell: (job) => job.demand.slots ?? 0, kind: "number" },
  { name: "Priority", cell: (job) => <Priority job={job} />, kind: "number" },
  { name: "Since", cell: (job) => since(job.changed_at, now), kind: "number" },
  { name: "Evictions", cell: (job) => job.evictions || "", of: (job) => job.evictions },
  { name: "Project", cell: (job) => job.project, of: (job) => job.project },
  { name: "Who", cell: (job) => person(job.user || job.submitter) },
];
