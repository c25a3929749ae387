// The progress that a job's script reports. Scripts are untrusted: the numbers may be anything.

import type { Job } from "../api";
import { duration } from "../words";
import { Bar, type Piece } from "./bar";

export type Progress = NonNullable<Job["progress"]>;

const MOST_METRICS = 4;

/** The part done, from 0 to 1; undefined if the script does not report the total. */
export function fraction({ step, of }: Progress): number | undefined {
  if (typeof step !== "number" || typeof of !== "number" || !(of > 0)) return undefined;
  return Math.min(1, Math.max(0, step / of));
}

/** Rounded down: 100 % is the end, and nothing else. */
const percent = (done: number): string => `${Math.floor(100 * done)} %`;

const left = ({ eta_seconds: eta }: Progress): string[] =>
  typeof eta === "number" && Number.isFinite(eta) && eta >= 0 ? [`${duration(eta)} left`] : [];

/** The same for a table, short: `42 %, 1h05 left`, else the step. */
export function inShort(progress: Progress | null | undefined): string {
  if (!progress) return "";
  const done = fraction(progress);
  const step = typeof progress.step === "number" ? [progress.step.toLocaleString("en")] : [];
  return [...(done === undefined ? step : [percent(done)]), ...left(progress)].join(", ");
}

const took = (seconds: number): string => (seconds < 10 ? `${seconds.toFixed(1)} s` : duration(seconds));

export function inWords(progress: Progress): string {
  const done = fraction(progress);
  const of = typeof progress.of === "number" ? ` of ${progress.of.toLocaleString("en")}` : "";
  const part = done === undefined ? "" : ` (${percent(done)})`;
  const step = typeof progress.step === "number" ? [`step ${progress.step.toLocaleString("en")}${of}${part}`] : [];
  const metrics = Object.entries(progress.metrics ?? {})
    .slice(0, MOST_METRICS)
    .map(([name, value]) => `${name} ${typeof value === "number" ? Number(value.toPrecision(4)) : String(value)}`);
  const saved = progress.saved;
  const at = typeof saved?.step === "number" ? ` step ${saved.step.toLocaleString("en")}` : "";
  const within = typeof saved?.took_seconds === "number" ? ` in ${took(saved.took_seconds)}` : "";
  return [...step, ...left(progress), ...metrics, ...(saved ? [`saved${at}${within}`] : [])].join(", ");
}

/** The same for a cell: a bar, and the words. */
export function Done({ progress }: { progress: Progress | null | undefined }) {
  if (!progress) return null;
  const done = fraction(progress);
  return (
    <span class="done">
      {done !== undefined && <Bar pieces={[piece(done)]} total={100} />}
      {inShort(progress)}
    </span>
  );
}

const piece = (done: number): Piece => ({ kind: "done", name: "percent done", amount: Math.floor(100 * done) });

export function ProgressPanel({ progress }: { progress: Progress }) {
  const done = fraction(progress);
  const words = inWords(progress);
  if (!words) return null;
  return (
    <section aria-labelledby="progress">
      <h2 id="progress">Progress</h2>
      {done !== undefined && (
        <Bar pieces={[piece(done)]} total={100} label={percent(done)} />
      )}
      <p>{words}</p>
    </section>
  );
}
