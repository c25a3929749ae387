// Projects with quota, fair share, use and budget.

import { get, type Project } from "../api";
import { useLive } from "../live";
import { Bar } from "../parts/bar";
import { Trouble } from "../parts/trouble";
import { clock } from "../words";

export function Projects() {
  const live = useLive("projects", (signal) => get("/projects", {}, signal), 5);
  return (
    <>
      <h1>Projects</h1>
      <Trouble of={[live]} />
      {live.value?.projects.length === 0 && <p class="empty">This queue has no projects: all jobs share everything.</p>}
      {live.value?.departments?.map((department) => (
        <section key={department.name} aria-labelledby={`department-${department.name}`}>
          <h2 id={`department-${department.name}`}>Department {department.name}</h2>
          <Standings of={department} />
        </section>
      ))}
      {live.value?.projects.map((project) => (
        <ProjectPanel key={project.name} project={project} />
      ))}
    </>
  );
}

type Budget = NonNullable<Project["budget"]>;

const BEYOND: Record<string, string> = {
  soft: "beyond it, what the project holds counts as over quota",
  hard: "beyond it, nothing of the project starts",
};

/** Slot-hours as in the terminal, rounded down to thousandths: `412.5`. */
const hours = (seconds: number): string => String(Math.floor(Math.round(seconds * 1000) / 3600) / 1000);

/** `412.5 of 500 slot-hours (soft)`. */
export const spent = (budget: Budget): string =>
  `${hours(budget.spent_slot_seconds)} of ${hours(budget.slot_seconds)} slot-hours (${budget.beyond})`;

function Spent({ project, budget }: { project: string; budget: Budget }) {
  const { spent_slot_seconds: used, slot_seconds: whole, beyond } = budget;
  const pieces = [
    { kind: "used" as const, name: "spent", amount: Math.min(used, whole) },
    { kind: "over" as const, name: "beyond the budget", amount: Math.max(0, used - whole) },
  ];
  return (
    <div>
      <p>
        budget: {spent(budget)}, until {clock(budget.resets_at)}
        {beyond in BEYOND && `; ${BEYOND[beyond]}`}.
      </p>
      <Bar pieces={pieces} total={whole} label={`${project}: spent ${spent(budget)}`} />
    </div>
  );
}

function ProjectPanel({ project }: { project: Project }) {
  return (
    <section aria-labelledby={`project-${project.name}`}>
      <h2 id={`project-${project.name}`}>{project.name}</h2>
      {project.budget && <Spent project={project.name} budget={project.budget} />}
      <Standings of={project} />
    </section>
  );
}

/** What a project or a department deserves and holds, by resource. */
function Standings({ of }: { of: Pick<Project, "name" | "standings"> }) {
  return (
    <>
      {of.standings.length === 0 && <p class="empty">It holds nothing.</p>}
      {of.standings.map((status) => {
        const within = Math.max(0, status.held - status.over_quota);
        const pieces = [
          { kind: "used" as const, name: "within quota", amount: within },
          { kind: "over" as const, name: "over quota", amount: status.over_quota },
          { kind: "stopping" as const, name: "stopping", amount: status.stopping },
        ];
        const what = [status.resource, status.pool && `in ${status.pool}`].filter(Boolean).join(" ");
        return (
          <div key={what}>
            <p>
              {what}: holds {status.held} of a quota of {status.quota}; its fair share now is {status.share}
              {status.limit !== null && `, its limit ${status.limit}`}; {status.waiting} more are asked for.
              {status.past_use != null && status.due != null && ` It has ${status.past_use} % of past use; its weight deserves ${status.due} %.`}
            </p>
            <Bar
              pieces={pieces}
              total={Math.max(status.quota, status.share, status.held)}
              label={`${of.name}, ${what}: ${status.held} held, ${status.over_quota} over quota`}
            />
          </div>
        );
      })}
    </>
  );
}
