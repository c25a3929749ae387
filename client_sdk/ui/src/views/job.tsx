// One job: its history, the reason why it waits, its attempts and its request.

import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { call, ofGroup, ofJob, type Attempt, type Job, type Me, type Reason } from "../api";
import { useLive } from "../live";
import { Moment } from "../parts/moment";
import { ProgressPanel } from "../parts/progress";
import { Priority, State, waits } from "../parts/state";
import { Trouble } from "../parts/trouble";
import { story } from "../story";
import { expected, inAll, inShort, type Start } from "../starts";
import { amount, clock, duration, lasting, person, short } from "../words";
import { Actions } from "./actions";
import { Logs } from "./logs";

/** Seconds between two forecasts, each of which reads the whole queue: the more seldom, the later the job's turn. */
const forecastEvery = (place: number | null | undefined): number => Math.min(600, Math.max(30, place ?? 0));

export function JobPage({ name, me }: { name: string; me: Me | undefined }) {
  const live = useLive(`job ${name}`, (signal) => call<Job>("GET", ofJob(name), { signal }));
  const job = live.value;
  const waiting = job !== undefined && waits(job);
  const { value: start } = useLive(
    waiting ? `start ${name}` : "",
    (signal) => (waiting ? expected(name, signal) : Promise.resolve(undefined)),
    forecastEvery(job?.place),
  );
  return (
    <>
      <h1>
        {name} {job && <State job={job} />}
      </h1>
      <Trouble of={[live]} />
      {live.trouble?.status === 404 && <Link href={`/jobs?search=${encodeURIComponent(name)}`}>Jobs with such a name</Link>}
      {job && (
        <>
          <p class="story">{[...story(job, live.at), ...inShort(start, live.at)].join(", ")}.</p>
          <Warnings job={job} now={live.at} />
          {job.message && !waits(job) && <p>{job.message}</p>}
          <Actions job={job} me={me} done={live.refresh} />
          {waits(job) && <Why job={job} start={start} now={live.at} />}
          {job.progress && <ProgressPanel progress={job.progress} />}
          <Facts job={job} />
          <Attempts attempts={job.attempts ?? []} now={live.at} />
          {job.attempts_begun > 0 && <Logs name={name} />}
          <Request name={name} />
        </>
      )}
    </>
  );
}

function Warnings({ job, now }: { job: Job; now: number }) {
  const stalled = job.stalled_since
    ? [`Its script has reported nothing new for ${lasting((now - Date.parse(job.stalled_since)) / 1000)}.`]
    : [];
  const warnings = [...stalled, ...(job.warnings ?? [])];
  return warnings.length ? (
    <ul class="trouble" aria-label="Warnings">
      {warnings.map((warning) => (
        <li key={warning}>{warning}</li>
      ))}
    </ul>
  ) : null;
}

function Why({ job, start, now }: { job: Job; start: Start | undefined; now: number }) {
  const outlook = job.outlook;
  return (
    <section aria-labelledby="why">
      <h2 id="why">Why it waits</h2>
      {job.reason && <p>{job.reason.text}</p>}
      {start && <p>{inAll(start, now)}</p>}
      {outlook && (
        <>
          <Reasons of={outlook.rooms} title="What each pool has for it" />
          <Reasons of={outlook.evictions} title="Why the jobs there are not evicted for it" />
          <Reasons of={outlook.reserved} title="What is kept there" />
          <Reasons of={outlook.times} title="What time alone may change" />
          {outlook.earliest && <p>It could start at {clock(outlook.earliest)}, if nothing else comes.</p>}
        </>
      )}
    </section>
  );
}

function Reasons({ of, title }: { of: Reason[]; title: string }) {
  return of.length ? (
    <>
      <h3>{title}</h3>
      <ul>
        {of.map((reason, index) => (
          <li key={index}>{reason.text}</li>
        ))}
      </ul>
    </>
  ) : null;
}

function Facts({ job }: { job: Job }) {
  const facts: [string, unknown][] = [
    ["Priority", <Priority job={job} />],
    ["Asks for", amount(job.demand)],
    ["Pools", job.pools.join(", ")],
    ["Project", job.project],
    ["Group", job.group && <Link href={ofGroup(job.group)}>{job.group}</Link>],
    ["After", (job.after ?? []).join(", ")],
    ["Submitted by", <span title={job.submitter}>{person(job.user || job.submitter)}</span>],
    ["Entered", <Moment at={job.entry_time} />],
    ["May be evicted", job.preemptible === "semi" ? "not within its project's quota" : job.preemptible ? "yes" : "no"],
    ["Evictions so far", job.evictions],
    ["Training job", job.training_job],
    ["Final metrics", Object.entries(job.metrics ?? {}).map(([name, value]) => `${name} ${Number(value.toPrecision(4))}`).join(", ")],
  ];
  return (
    <dl class="facts">
      {facts
        .filter(([, value]) => value !== "" && value !== null && value !== undefined)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value as never}</dd>
          </div>
        ))}
    </dl>
  );
}

function Attempts({ attempts, now }: { attempts: Attempt[]; now: number }) {
  if (!attempts.length) return null;
  return (
    <section aria-labelledby="attempts">
      <h2 id="attempts">Attempts</h2>
      <table class="attempts">
        <thead>
          <tr>
            <th scope="col">No.</th>
            <th scope="col">Pool</th>
            <th scope="col">Began (UTC)</th>
            <th scope="col" class="number">
              Ran
            </th>
            <th scope="col">Outcome</th>
          </tr>
        </thead>
        <tbody>
          {attempts.toReversed().map((attempt) => (
            <tr key={attempt.number}>
              <td>{attempt.number}</td>
              <td>{attempt.pool}</td>
              <td>
                <Moment at={attempt.admitted_at} as={short} />
              </td>
              <td class="number">{ran(attempt, now)}</td>
              <td>
                {attempt.outcome ?? (attempt.stop_cause ? "is being stopped" : "goes on")}
                {attempt.stopped_for && `, for ${attempt.stopped_for}`}
                {remarks(attempt).map((sentence) => (
                  <span key={sentence} class="why">
                    {sentence}
                  </span>
                ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** What there is to say of an attempt, a sentence each. */
export const remarks = ({ warm, resumption, warning, message }: Attempt): string[] =>
  [warm ? "On warm instances." : "", resumption ?? "", warning ?? "", message ?? ""].filter(Boolean);

const ran = ({ running_since: since, ended_at: ended }: Attempt, now: number): string =>
  since ? duration(((ended ? Date.parse(ended) : now) - Date.parse(since)) / 1000) : "";

function Request({ name }: { name: string }) {
  const [text, setText] = useState("");
  const show = async () => {
    try {
      const found = await call<{ request: unknown }>("GET", ofJob(name, "/request"));
      setText(JSON.stringify(found.request, null, 2));
    } catch (error) {
      setText((error as Error).message);
    }
  };
  return (
    <details onToggle={(event) => event.currentTarget.open && void show()}>
      <summary>The request, as it was submitted</summary>
      <pre tabIndex={0}>{text}</pre>
    </details>
  );
}
