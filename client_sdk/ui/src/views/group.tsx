// One group: its rules, what it lacks, its members, and what can be done to all of them.

import type { ComponentChildren } from "preact";
import { call, isDenied, wholeGroup, type Group, type Job, type Me } from "../api";
import { Link } from "wouter-preact";
import { useLive } from "../live";
import { Deeds, type Question } from "../parts/confirmation";
import { Moment } from "../parts/moment";
import { Rows, type Column } from "../parts/rows";
import { Priority, State } from "../parts/state";
import { Trouble } from "../parts/trouble";
import { mayChange } from "../rights";
import { VERBS } from "../verbs";
import { counted, lasting, person, since } from "../words";
import { changeOf, titled } from "./actions";
import { atOnce, GroupBar, kindOf, statesOf } from "./groups";
import { jobLink } from "./queue";
import { Trials } from "./trials";

export function GroupPage({ name, me }: { name: string; me: Me | undefined }) {
  const live = useLive(`group ${name}`, (signal) => wholeGroup(name, signal));
  const group = live.value;
  return (
    <>
      <h1>
        {name} {group?.state && <span class={`state ${group.state}`}>{group.state}</span>}
      </h1>
      <Trouble of={[live]} />
      {live.trouble?.status === 404 && <Link href="/groups?all=all">All groups</Link>}
      {group && (
        <>
          <p class="story">
            A {kindOf(group)} of {counted(group.members, "job")}
            {atOnce(group)}: {statesOf(group) || "no record of them is left"}.
          </p>
          <GroupBar group={group} />
          {group.message && <p>{group.message}</p>}
          {group.reason && <p>{group.reason.text}</p>}
          <Deeds of={questions(group, me)} done={live.refresh} />
          <Facts group={group} />
          {group.sweep && <Trials sweep={group.sweep} group={name} />}
          <section aria-labelledby="members">
            <h2 id="members">Members</h2>
            <Rows
              label={`The members of ${name}`}
              rows={group.jobs}
              columns={columns(group, live.at)}
              keyOf={(job) => job.name}
              empty="No record of a member is left."
            />
          </section>
        </>
      )}
    </>
  );
}

function Facts({ group }: { group: Group }) {
  const { gang } = group;
  const facts: [string, ComponentChildren][] = [
    ["Must run at once", gang ? counted(gang.needed ?? 0, "member") : ""],
    ["Ready to start", gang ? counted(gang.ready ?? 0, "member") : ""],
    ["Must be among them", (gang?.mandatory ?? []).join(", ")],
    ["Missing", (gang?.missing ?? []).join(", ")],
    ["All in one pool", gang?.same_pool ? "yes" : ""],
    ["Elastic", gang?.elastic ? "yes" : ""],
    ["Ends with", gang?.ends_with ?? ""],
    ["May be silent for", gang?.heartbeat_seconds ? lasting(gang.heartbeat_seconds) : ""],
    ["Result", group.result ?? ""],
    ["Project", group.project ?? ""],
    ["Submitted by", person(group.submitter ?? "")],
    ["Submitted", group.submitted_at ? <Moment at={group.submitted_at} /> : ""],
  ];
  return (
    <dl class="facts">
      {facts
        .filter(([, value]) => value)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

const columns = (group: Group, now: number): Column<Job>[] => [
  { name: "Job", cell: jobLink, kind: "main" },
  { name: "Site", cell: (job) => group.gang?.sites?.[job.name], of: (job) => group.gang?.sites?.[job.name] },
  { name: "State", cell: (job) => <State job={job} />, plain: true },
  { name: "Pool", cell: (job) => job.pool ?? job.pools.join(", ") },
  { name: "Priority", cell: (job) => <Priority job={job} />, kind: "number" },
  { name: "Since", cell: (job) => since(job.changed_at, now), kind: "number" },
  { name: "Says", cell: (job) => job.message, of: (job) => job.message, kind: "why" },
];

/** The simulator takes at most so many jobs of one kind of change. */
const MOST = 200;

/** What can be done to the members that it fits, as far as the caller may. */
export function questions(group: Group, me: Me | undefined): Question[] {
  if (isDenied("PATCH", "/jobs")) return [];
  return VERBS.flatMap(({ name: verb, offers, ofAGroup, simulated, takes, label }): Question[] => {
    const fits = (job: Job) => offers.some(({ states }) => states.includes(job.state));
    const jobs = group.jobs.filter((job) => fits(job) && mayChange(me, job));
    if (!ofAGroup || !jobs.length) return [];
    const names = jobs.map((job) => job.name);
    const states = [...new Set(jobs.map((job) => job.state))];
    const name = titled(verb);
    const question: Question = {
      name,
      title: `${name}: ${counted(jobs.length, "job")} of ${group.name}`,
      says: ofAGroup,
      ...(label && { asks: { label, value: "" } }),
      ...(simulated && names.length <= MOST && { change: (value: string) => changeOf(simulated, names, takes, value) }),
      act: (value: string) => toMany({ verb, names, states, priority: value.trim() }),
    };
    return [question];
  });
}

async function toMany(body: { verb: string; names: string[]; states: string[]; priority: string }): Promise<void> {
  const { changed, refused } = await call<{ changed: number; refused: { job: string; message: string }[] }>(
    "POST",
    "/jobs",
    { base: "/own", body },
  );
  const [first] = refused;
  if (first)
    throw new Error(`${counted(changed, "job")} changed; ${refused.length} refused. ${first.job}: ${first.message}`);
}
