// Gangs, federated jobs and sweeps: the state of each, and the number of its jobs by state.

import { Link } from "wouter-preact";
import { useFilter } from "../address";
import { get, ofGroup, type GroupSummary } from "../api";
import { useLive } from "../live";
import { Bar, type Piece } from "../parts/bar";
import { Rows, type Column } from "../parts/rows";
import { Trouble } from "../parts/trouble";
import { counted, person, since } from "../words";

const OVER = new Set(["completed", "failed", "cancelled", ""]);

export function Groups() {
  const [all, setAll] = useFilter("all");
  const live = useLive("groups", (signal) => get("/groups", {}, signal), 5);
  const found = (live.value?.groups ?? []).filter((group) => all || !OVER.has(group.state ?? ""));
  return (
    <>
      <h1>Groups</h1>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          Show
          <select value={all} onChange={(event) => setAll(event.currentTarget.value)}>
            <option value="">those that go on</option>
            <option value="all">all, the ended ones too</option>
          </select>
        </label>
      </form>
      <Trouble of={[live]} />
      {live.value && (
        <Rows
          label="Groups"
          rows={found}
          columns={columns(live.at)}
          keyOf={(group) => group.name}
          empty={all ? "No group has been submitted." : "No group goes on."}
        />
      )}
    </>
  );
}

/** The kind of group: gang, federated job or sweep. */
export function kindOf({ gang }: GroupSummary): string {
  if (gang) return gang.ends_with ? "federated job" : "gang";
  return "sweep";
}

/** `, 4 at once`, where that is limited. */
export const atOnce = ({ max_parallel: most }: GroupSummary): string => (most ? `, ${most} at once` : "");

const RUNS = ["running", "starting", "stopping"];
const FAILED = ["failed", "stopped", "cancelled"];

const inStates = (group: GroupSummary, states: string[]): number =>
  states.reduce((sum, state) => sum + (group.states[state] ?? 0), 0);

/** `12 completed, 4 running, 84 pending`. */
export const statesOf = (group: GroupSummary): string =>
  Object.entries(group.states)
    .map(([state, number]) => `${number.toLocaleString("en")} ${state}`)
    .join(", ");

export function GroupBar({ group }: { group: GroupSummary }) {
  const pieces: Piece[] = [
    { kind: "done", name: "completed", amount: group.states.completed ?? 0 },
    { kind: "used", name: "running", amount: inStates(group, RUNS) },
    { kind: "over", name: "failed, stopped or cancelled", amount: inStates(group, FAILED) },
  ];
  return <Bar pieces={pieces} total={group.members} label={`${group.name}: ${statesOf(group)}`} />;
}

const columns = (now: number): Column<GroupSummary>[] => [
  { name: "Group", cell: (group) => <Link href={ofGroup(group.name)}>{group.name}</Link>, kind: "main" },
  { name: "State", cell: (group) => group.state && <span class={`state ${group.state}`}>{group.state}</span>, plain: true },
  { name: "Kind", cell: (group) => kindOf(group) + atOnce(group), plain: true },
  { name: "Jobs", cell: (group) => counted(group.members, "job"), kind: "number", plain: true },
  { name: "How far", cell: (group) => <GroupBar group={group} /> },
  { name: "For", cell: (group) => group.submitted_at && since(group.submitted_at, now), kind: "number" },
  { name: "Project", cell: (group) => group.project, of: (group) => group.project },
  { name: "Who", cell: (group) => person(group.submitter ?? "") },
];
