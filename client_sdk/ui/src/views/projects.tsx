// Projects with quota, fair share and use.

import { get, type Project } from "../api";
import { useLive } from "../live";
import { Bar } from "../parts/bar";
import { Trouble } from "../parts/trouble";

export function Projects() {
  const live = useLive("projects", (signal) => get("/projects", {}, signal), 5);
  return (
    <>
      <h1>Projects</h1>
      <Trouble of={[live]} />
      {live.value?.projects.length === 0 && <p class="empty">This queue has no projects: all jobs share everything.</p>}
      {live.value?.projects.map((project) => (
        <ProjectPanel key={project.name} project={project} />
      ))}
    </>
  );
}

function ProjectPanel({ project }: { project: Project }) {
  return (
    <section aria-labelledby={`project-${project.name}`}>
      <h2 id={`project-${project.name}`}>{project.name}</h2>
      {project.standings.length === 0 && <p class="empty">It holds nothing.</p>}
      {project.standings.map((each) => {
        const within = Math.max(0, each.held - each.over_quota);
        const pieces = [
          { kind: "used" as const, name: "within quota", amount: within },
          { kind: "over" as const, name: "over quota", amount: each.over_quota },
          { kind: "stopping" as const, name: "stopping", amount: each.stopping },
        ];
        const what = [each.resource, each.pool && `in ${each.pool}`].filter(Boolean).join(" ");
        return (
          <div key={what}>
            <p>
              {what}: holds {each.held} of a quota of {each.quota}; its fair share now is {each.share}
              {each.limit !== null && `, its limit ${each.limit}`}; {each.waiting} more are asked for.
            </p>
            <Bar
              pieces={pieces}
              total={Math.max(each.quota, each.share, each.held)}
              label={`${project.name}, ${what}: ${each.held} held, ${each.over_quota} over quota`}
            />
          </div>
        );
      })}
    </section>
  );
}
