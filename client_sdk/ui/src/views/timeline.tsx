// When each job held slots, with victims and beneficiaries of evictions. The window and the pool are part of the address.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Link, useSearchParams } from "wouter-preact";
import { ofJob, type AttemptsPage, type HeldSlots } from "../api";
import { attemptsIn, type Look } from "../attempts";
import { useKnown, useLive } from "../live";
import { Moment } from "../parts/moment";
import { Rows, type Column } from "../parts/rows";
import { Trouble } from "../parts/trouble";
import {
  DAY,
  fitted,
  forWhom,
  inWords,
  lanesOf,
  moved,
  nameOf,
  ticks,
  zoomed,
  type PoolLanes,
  type Span,
} from "../timeline";
import { clock, counted, duration, lasting, person, short } from "../words";
import { Lanes } from "./lanes";
import "./timeline.css";

const LENGTHS: [string, number][] = [
  ["15 minutes", DAY / 96],
  ["an hour", DAY / 24],
  ["6 hours", DAY / 4],
  ["a day", DAY],
  ["a week", 7 * DAY],
  ["30 days", 30 * DAY],
  ["half a year", 182 * DAY],
];
const IN = 0.5;
const OUT = 2;
const STEP = 0.25;

/** A moment of the address; undefined if it is invalid. */
const momentIn = (text: string | null): number | undefined => {
  const found = Date.parse(text ?? "");
  return Number.isNaN(found) ? undefined : found;
};

export function Timeline() {
  const [query, setQuery] = useSearchParams();
  const from = momentIn(query.get("from"));
  const to = momentIn(query.get("to"));
  const pool = query.get("pool") ?? "";
  const asked: Record<string, string> = {};
  if (from !== undefined) asked.from = new Date(from).toISOString();
  if (to !== undefined) asked.to = new Date(to).toISOString();
  if (pool) asked.pool = pool;
  const question = JSON.stringify(asked);
  const last = useRef<Look & { question: string }>();
  const ask = async (signal: AbortSignal) => {
    const look = await attemptsIn(asked, signal, last.current?.question === question ? last.current : undefined);
    last.current = { ...look, question };
    return look.page;
  };
  const live = useLive(question, ask, to === undefined ? 15 : 300);
  // Draw the known attempts in the new window until its answer comes.
  const known = useRef<AttemptsPage>();
  if (live.value) known.current = live.value;
  const page = known.current;
  const now = live.at || Date.now();
  const pools = useMemo(() => lanesOf(page?.attempts ?? [], page ? Date.parse(page.as_of) : 0), [page]);
  const isFitted = from === undefined && to === undefined;
  const end = to ?? now;
  const begin = from ?? end - DAY;
  const span = isFitted ? fitted(pools, now) : { from: begin, to: Math.max(end, begin + 1) };
  const evictions = useMemo(() => newestFirst((page?.attempts ?? []).filter((attempt) => attempt.evicted)), [page]);
  const show = (wanted: Span) =>
    setQuery(
      (old) => {
        const next = new URLSearchParams(old);
        next.set("from", new Date(wanted.from).toISOString());
        if (wanted.to >= now) next.delete("to");
        else next.set("to", new Date(wanted.to).toISOString());
        return next;
      },
      { replace: true },
    );
  const fit = () =>
    setQuery(
      (old) => {
        const next = new URLSearchParams(old);
        next.delete("from");
        next.delete("to");
        return next;
      },
      { replace: true },
    );
  const acts: Acts = {
    fit,
    in: () => show(zoomed(span, IN, now)),
    out: () => show(zoomed(span, OUT, now)),
    earlier: () => show(moved(span, -STEP, now)),
    later: () => show(moved(span, STEP, now)),
    now: () => show({ from: now - (span.to - span.from), to: now }),
  };
  return (
    <>
      <h1>Timeline</h1>
      <Controls acts={acts} span={span} show={show} now={now} pool={pool} pools={pools.map((lanes) => lanes.pool)} />
      <Trouble of={[useKnown(live)]} />
      <p>
        {clock(new Date(span.from).toISOString())} to {span.to >= now ? "now" : clock(new Date(span.to).toISOString())}
      </p>
      {page && <Notes page={page} />}
      <Chart pools={pools} span={span} acts={acts} now={now} />
      {page && pools.length === 0 && <p class="empty">No attempt held slots in this window.</p>}
      <h2>
        Evictions <small>{counted(evictions.length, "attempt")}</small>
      </h2>
      <Rows label="Evictions" rows={evictions} columns={EVICTIONS} keyOf={keyOf} empty="No evictions." />
      {page && <AsTable page={page} now={now} />}
    </>
  );
}

interface Acts {
  fit: () => void;
  in: () => void;
  out: () => void;
  earlier: () => void;
  later: () => void;
  now: () => void;
}

function Controls({
  acts,
  span,
  show,
  now,
  pool,
  pools,
}: {
  acts: Acts;
  span: Span;
  show: (wanted: Span) => void;
  now: number;
  pool: string;
  pools: string[];
}) {
  const [, setQuery] = useSearchParams();
  const length = LENGTHS.find(([, ms]) => Math.abs(ms - (span.to - span.from)) < ms / 100);
  const choose = (name: string) =>
    setQuery(
      (old) => {
        const next = new URLSearchParams(old);
        if (name) next.set("pool", name);
        else next.delete("pool");
        return next;
      },
      { replace: true },
    );
  return (
    <div class="actions" role="group" aria-label="Window">
      <button type="button" onClick={acts.fit}>
        Fit
      </button>
      <button type="button" onClick={acts.in}>
        Zoom in
      </button>
      <button type="button" onClick={acts.out}>
        Zoom out
      </button>
      <button type="button" onClick={acts.earlier}>
        Earlier
      </button>
      <button type="button" onClick={acts.later}>
        Later
      </button>
      <button type="button" onClick={acts.now}>
        Now
      </button>
      <label>
        Length
        <select
          value={length?.[0] ?? ""}
          onChange={(event) => {
            const wanted = LENGTHS.find(([name]) => name === event.currentTarget.value)?.[1];
            if (wanted) show(zoomed(span, wanted / (span.to - span.from), now));
          }}
        >
          {!length && <option value="">{lasting((span.to - span.from) / 1000)}</option>}
          {LENGTHS.map(([name]) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <label>
        Pool
        <select value={pool} onChange={(event) => choose(event.currentTarget.value)}>
          <option value="">all</option>
          {[...new Set(pool ? [pool, ...pools] : pools)].sort().map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

function Notes({ page }: { page: AttemptsPage }) {
  const notes = [
    page.next && `Only the first ${counted(page.attempts.length, "attempt")} of this window are drawn: zoom in, or choose a pool.`,
    page.gone &&
      `${counted(page.gone, "attempt")} ended then or later, and the queue no longer keeps them one by one: slotq usage has their sums.`,
    page.unreadable && `${counted(page.unreadable, "record")} cannot be read and are not drawn.`,
  ].filter(Boolean);
  return notes.length ? <p class="trouble">{notes.join(" ")}</p> : null;
}

function Chart({ pools, span, acts, now }: { pools: PoolLanes[]; span: Span; acts: Acts; now: number }) {
  const chart = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(800);
  const [pointed, setPointed] = useState<HeldSlots>();
  useLayoutEffect(() => {
    const look = () => setWidth(Math.max(100, Math.round(chart.current?.clientWidth || 800)));
    look();
    addEventListener("resize", look);
    return () => removeEventListener("resize", look);
  }, []);
  const keys: Record<string, () => void> = {
    "+": acts.in,
    "=": acts.in,
    "-": acts.out,
    ArrowLeft: acts.earlier,
    ArrowRight: acts.later,
    n: acts.now,
    f: acts.fit,
  };
  const marks = ticks(span, width);
  const has = (kind: string) => pools.some(({ held }) => held.some(({ of }) => of.kind === kind));
  return (
    <div
      ref={chart}
      class="chart"
      role="group"
      tabIndex={0}
      aria-label="Timeline: plus and minus zoom, the arrows move, n goes to the present, f fits all in. Tab leads to the bars: there the arrows lead from bar to bar, and Enter opens the job. The tables below have the same in words."
      onKeyDown={(event) => {
        const act = keys[event.key];
        if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        act();
      }}
    >
      <ul class="legend">
        <li>
          <span class="key starts" aria-hidden="true" />
          starts
        </li>
        <li>
          <span class="key used" aria-hidden="true" />
          runs
        </li>
        {has("spot") && (
          <li>
            <span class="key spot" aria-hidden="true" />
            runs on spot
          </li>
        )}
        {has("warm") && (
          <li>
            <span class="key warm" aria-hidden="true" />
            stays warm for the next job
          </li>
        )}
        <li>
          <span class="key evicted" aria-hidden="true" />
          is evicted
        </li>
        <li>
          <span class="key line" aria-hidden="true" />
          leads to the job that it was evicted for
        </li>
      </ul>
      <p class="pointed">{pointed ? inWords(pointed, now) : "Point at a bar, or reach it by Tab, to see whose it is."}</p>
      <svg class="axis" viewBox={`0 0 ${width} 18`} height="18" aria-hidden="true">
        {marks.map(({ x, text }) => (
          <text key={text + x} x={Math.min(x, width - 60)} y="13">
            {text}
          </text>
        ))}
      </svg>
      {pools.map((pool) => (
        <Lanes key={pool.pool} pool={pool} span={span} width={width} marks={marks} now={now} pointed={pointed} point={setPointed} />
      ))}
    </div>
  );
}

/** The same in words, drawn once somebody opens it. */
function AsTable({ page, now }: { page: AttemptsPage; now: number }) {
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>As a table</summary>
      {open && (
        <Rows label="Attempts" rows={page.attempts} columns={columns(now)} keyOf={keyOf} empty="No attempts." />
      )}
    </details>
  );
}

const newestFirst = (attempts: HeldSlots[]): HeldSlots[] =>
  attempts.sort((one, other) => ((one.ended_at ?? "") < (other.ended_at ?? "") ? 1 : -1));

/** Attempts of others have no name: two may be equal in all known fields. */
const keyOf = (of: HeldSlots, index: number): string =>
  [of.job || index, of.number, of.pool, of.admitted_at, of.ended_at].join(" ");

const jobOf = (of: HeldSlots) => (of.job ? <Link href={ofJob(of.job)}>{of.job}</Link> : nameOf(of));

function gains({ evicted }: HeldSlots) {
  if (!evicted) return "";
  const name = evicted.job && <Link href={ofJob(evicted.job)}>{evicted.job}</Link>;
  const whose = [person(evicted.submitter), evicted.project].filter(Boolean).join(", ");
  if (!name && !whose) return "no particular job";
  return (
    <>
      {name || "a job of others"}
      {whose && ` (${whose})`}
    </>
  );
}

const when = (moment: string) => <Moment at={moment} as={short} />;

const KINDS: Record<string, string> = { on_demand: "on demand" };

const EVICTIONS: Column<HeldSlots>[] = [
  { name: "When (UTC)", cell: (of) => of.ended_at && when(of.ended_at) },
  { name: "Evicted", cell: jobOf, kind: "main" },
  { name: "For", cell: gains },
  { name: "Pool", cell: (of) => of.pool },
  { name: "Who", cell: (of) => person(of.submitter) },
  { name: "Project", cell: (of) => of.project, of: (of) => of.project },
];

const columns = (now: number): Column<HeldSlots>[] => [
  { name: "Job", cell: jobOf, kind: "main" },
  { name: "Attempt", cell: (of) => of.number },
  { name: "Pool", cell: (of) => of.pool },
  { name: "Kind", cell: (of) => KINDS[of.kind ?? ""] ?? of.kind },
  { name: "From (UTC)", cell: (of) => when(of.admitted_at) },
  {
    name: "For",
    cell: (of) => duration(((of.ended_at ? Date.parse(of.ended_at) : now) - Date.parse(of.admitted_at)) / 1000),
  },
  { name: "How it ended", cell: (of) => forWhom(of) || (of.outcome ?? (of.ended_at ? "" : "goes on")) },
  { name: "Who", cell: (of) => person(of.submitter) },
  { name: "Project", cell: (of) => of.project, of: (of) => of.project },
];
