// The queue in a few numbers: what runs and waits, what is free, and which part each project holds.

import { Link } from "wouter-preact";
import { get, type JobsPage, type Pool, type Project } from "../api";
import { useLive } from "../live";
import { Bar, type Piece } from "../parts/bar";
import { isActive, waits } from "../parts/state";

const MOST_PROJECTS = 4;

export function Tiles({ pools, jobs, pace }: { pools: Pool[]; jobs: JobsPage; pace: number }) {
  const { value } = useLive("projects", (signal) => get("/projects", {}, signal), Math.max(15, pace));
  const runs = jobs.jobs.filter(isActive).length;
  const line = jobs.jobs.filter(waits).length;
  const size = sum(pools.map((pool) => pool.size.slots ?? 0));
  const free = sum(pools.map((pool) => Math.max(0, (pool.size.slots ?? 0) - (pool.used.slots ?? 0))));
  const projects = (value?.projects ?? []).map(inSlots).sort((one, other) => other.held - one.held || other.share - one.share);
  return (
    <dl class="tiles" aria-label="In short">
      <Tile name="run" value={many(runs)} />
      <Tile name="wait" value={many(line) + (jobs.more ? " and more" : "")} />
      <Tile name={`free of ${many(size)} slots`} value={many(free)} />
      {projects.length > 0 && (
        <div class="shares">
          <dt>
            slots by project, of its <Link href="/projects">fair share</Link>
          </dt>
          <dd>
            <ul>
              {projects.slice(0, MOST_PROJECTS).map((project) => (
                <li key={project.name}>
                  <span>
                    {project.name}: {many(project.held)} of {many(project.share)}
                  </span>
                  <Bar pieces={piecesOf(project)} total={project.share} />
                </li>
              ))}
            </ul>
            {projects.length > MOST_PROJECTS && <small>and {projects.length - MOST_PROJECTS} more</small>}
          </dd>
        </div>
      )}
    </dl>
  );
}

const Tile = ({ name, value }: { name: string; value: string }) => (
  <div>
    <dt>{name}</dt>
    <dd>{value}</dd>
  </div>
);

interface Share {
  name: string;
  held: number;
  share: number;
}

/** Over all pools. */
export function inSlots({ name, standings }: Project): Share {
  const slots = standings.filter(({ resource }) => resource === "slots");
  return { name, held: sum(slots.map(({ held }) => held)), share: sum(slots.map(({ share }) => share)) };
}

const piecesOf = ({ held, share }: Share): Piece[] => [
  { kind: "used", name: "within its share", amount: Math.min(held, share) },
  { kind: "over", name: "beyond its share", amount: Math.max(0, held - share) },
];

const sum = (numbers: number[]): number => numbers.reduce((all, number) => all + number, 0);
const many = (number: number): string => number.toLocaleString("en");
