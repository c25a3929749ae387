// The nodes of the pools that keep some: a cell for each GPU, and who is on it.

import { Link } from "wouter-preact";
import { get, ofJob, type JobOnNode, type KeptNode } from "../api";
import { useLive } from "../live";
import { Trouble } from "../parts/trouble";
import { clock, counted } from "../words";

/** Mounted only where a pool keeps nodes: other queues pay for no further question. */
export function Nodes({ pace }: { pace: number }) {
  const live = useLive("nodes", (signal) => get("/nodes", {}, signal), pace);
  return (
    <section class="pool" aria-labelledby="nodes">
      <h2 id="nodes">Nodes</h2>
      <Trouble of={[live]} />
      {live.value?.nodes.length === 0 && <p class="empty">No node is there: the next job that asks for GPUs starts one.</p>}
      {live.value?.nodes.map((node) => <OneNode key={`${node.pool}/${node.name}`} node={node} />)}
    </section>
  );
}

function OneNode({ node }: { node: KeptNode }) {
  const waits = node.owed ?? [];
  return (
    <article class="node" aria-label={`${node.pool}/${node.name}`}>
      <h3>
        {node.pool}/{node.name} <small>{summaryOf(node)}</small>
      </h3>
      {(node.problems?.length ?? 0) > 0 && (
        <ul class="trouble" aria-label="Problems">
          {node.problems?.map((problem) => (
            <li key={problem}>{problem}</li>
          ))}
        </ul>
      )}
      <ul class="gpus">
        {cellsOf(node).map((jobs, index) => (
          <li key={index} class={jobs.length ? "taken" : "free"}>
            <small>GPU {index}</small>
            {jobs.map((job, place) => (
              <span key={place}>
                {" "}
                <Name job={job} />
                {job.gpus < 1 && ` ${job.gpus.toFixed(2)}`}
              </span>
            ))}
            {leftOf(node, index)}
          </li>
        ))}
      </ul>
      {waits.length > 0 && (
        <p>
          {waits.map((job, index) => (
            <span key={index}>
              <Name job={job} /> waits for {counted(job.gpus, "GPU")}.{" "}
            </span>
          ))}
        </p>
      )}
    </article>
  );
}

const Name = ({ job }: { job: JobOnNode }) => (
  <>
    {job.name ? <Link href={ofJob(job.name)}>{job.name}</Link> : <span>another's job</span>}
    {BOUNDS[job.gpu_bound ?? ""] && <small> {BOUNDS[job.gpu_bound ?? ""]}</small>}
  </>
);

/** What holds a job to its part of a GPU. */
const BOUNDS: Record<string, string> = { mps: "by MPS", framework: "by its framework" };

/** Who has each GPU, or parts of it, by its index. */
export function cellsOf(node: KeptNode): JobOnNode[][] {
  const cells: JobOnNode[][] = Array.from({ length: node.gpus }, () => []);
  for (const job of node.jobs) for (const index of job.gpu_ids ?? []) cells[index]?.push(job);
  return cells;
}

/** What is free of a GPU; nothing if it is taken whole. An earlier queue only says which are free. */
function leftOf(node: KeptNode, index: number): string {
  const left = node.left?.[index] ?? (node.free.includes(index) ? 1 : 0);
  if (left === 1) return " free";
  return left > 0 ? `, ${left.toFixed(2)} free` : "";
}

/** State, project, free GPUs, and until when it stays. */
export function summaryOf(node: KeptNode): string {
  const said = [node.state, ...(node.project ? [`of ${node.project}`] : []), `${node.free.length} of ${node.gpus} GPUs free`];
  if (node.kept_until != null) said.push(`kept until ${clock(node.kept_until)}`);
  return said.join(", ");
}
