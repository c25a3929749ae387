// The trials of a sweep with parameters and results; sorted by result on request.

import { Link } from "wouter-preact";
import { useFilter } from "../address";
import { ofJob, type Sweep, type Trial } from "../api";
import { Rows, type Column } from "../parts/rows";

export function Trials({ sweep, group }: { sweep: Sweep; group: string }) {
  const [order, setOrder] = useFilter("order");
  const trials = order === "best" ? ranked(sweep) : sweep.trials;
  const best = sweep.trials.find((trial) => trial.best);
  return (
    <section aria-labelledby="trials">
      <h2 id="trials">Results</h2>
      {sweep.metric && <p>{lookedFor(sweep)}</p>}
      {best && (
        <p>
          Best so far: <strong>{inShort(best.objective)}</strong> by {jobOf(best)} {tried(best)}
        </p>
      )}
      {sweep.metric && (
        <form class="filters" onSubmit={(event) => event.preventDefault()}>
          <label>
            Order
            <select value={order} onChange={(event) => setOrder(event.currentTarget.value)}>
              <option value="">as submitted</option>
              <option value="best">the best first</option>
            </select>
          </label>
        </form>
      )}
      <Rows
        label={`The results of ${group}`}
        rows={trials}
        columns={columns(sweep)}
        keyOf={(trial) => trial.name}
        empty="The sweep has no members."
      />
    </section>
  );
}

/** `val_loss, the smallest is best; good enough: 0.1, reached by lr-3`. */
export function lookedFor({ metric, maximize, goal, met_by: met }: Sweep): string {
  const enough = typeof goal === "number" ? `; good enough: ${inShort(goal)}` : "";
  return `${metric}, the ${maximize ? "largest" : "smallest"} is best${enough}${met ? `, reached by ${met}` : ""}.`;
}

/** Those with a value of the metric by it, then the others as they were submitted. */
export function ranked({ trials, maximize }: Sweep): Trial[] {
  const worth = ({ objective }: Trial) => (typeof objective === "number" ? (maximize ? -objective : objective) : Infinity);
  return trials.toSorted((one, other) => {
    const [a, b] = [worth(one), worth(other)];
    return a === b ? 0 : a - b;
  });
}

const MOST_PARAMETERS = 6;

function columns(sweep: Sweep): Column<Trial>[] {
  const names = [...new Set(sweep.trials.flatMap((trial) => Object.keys(trial.parameters ?? {})))];
  return [
    { name: "Job", cell: jobOf, kind: "main" },
    { name: "State", cell: (trial) => (trial.state ? <span class={`state ${trial.state}`}>{trial.state}</span> : "expired"), plain: true },
    ...names.slice(0, MOST_PARAMETERS).map(
      (name): Column<Trial> => ({ name, cell: (trial) => inShort(trial.parameters?.[name]) }),
    ),
    ...(sweep.metric
      ? [{ name: sweep.metric, cell: (trial: Trial) => inShort(trial.objective) + (trial.best ? " (best)" : ""), kind: "number" as const }]
      : []),
  ];
}

const jobOf = (trial: Trial) => (trial.job ? <Link href={ofJob(trial.job)}>{trial.job}</Link> : trial.name);

const tried = ({ parameters }: Trial): string => {
  const said = Object.entries(parameters ?? {}).map(([name, value]) => `${name}=${inShort(value)}`);
  return said.length ? `(${said.join(", ")})` : "";
};

const inShort = (value: unknown): string =>
  value === null || value === undefined ? "" : typeof value === "number" ? String(Number(value.toPrecision(6))) : String(value);
