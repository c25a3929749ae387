// A job's output, attempt after attempt, updated while it is in view.

import { useEffect, useRef, useState } from "preact/hooks";
import { call, type Refusal } from "../api";

const MOST_LINES = 5_000;
const SECONDS = 2;

interface Line {
  training_job: string;
  message: string;
}

interface Answer {
  cursor: string;
  lines: Line[];
  left_out: number;
  /** Whether there are lines before the first. */
  earlier: boolean;
  trouble: string;
}

export interface Shown {
  cursor: string;
  lines: Line[];
  leftOut: number;
  earlier: boolean;
}

/** The lines to show after one more answer. Another cursor than the last: the server restarted from the beginning. */
export function added(old: Shown, answer: Answer): Shown {
  const before = old.cursor === answer.cursor ? old : { lines: [], leftOut: 0, earlier: answer.earlier };
  const lines = [...before.lines, ...answer.lines];
  const over = Math.max(0, lines.length - MOST_LINES);
  const shown = over ? lines.slice(over) : lines;
  return { cursor: answer.cursor, lines: shown, leftOut: before.leftOut + answer.left_out + over, earlier: before.earlier };
}

/** The lines as one text; a heading where another attempt begins. */
export const asText = (lines: Line[]): string =>
  lines
    .map((line, index) =>
      lines[index - 1]?.training_job === line.training_job ? line.message : `== ${line.training_job}\n${line.message}`,
    )
    .join("\n");

/** How many lines are missing before those shown; the number before the page's first request is unknown. */
export const leftOut = ({ earlier, leftOut: known }: Shown): string =>
  earlier ? "Earlier lines are" : `${known.toLocaleString("en")} earlier ${known === 1 ? "line is" : "lines are"}`;

export function Logs({ name }: { name: string }) {
  const [open, setOpen] = useState(true);
  return (
    <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Logs</summary>
      {open && <Following name={name} />}
    </details>
  );
}

function Following({ name }: { name: string }) {
  const [shown, setShown] = useState<Shown>({ cursor: "", lines: [], leftOut: 0, earlier: false });
  const [trouble, setTrouble] = useState("");
  const [asked, setAsked] = useState(false);
  const text = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let cursor = "";
    const next = async () => {
      try {
        const rest = cursor ? `?cursor=${encodeURIComponent(cursor)}` : "";
        const answer = await call<Answer>("GET", `/logs/${encodeURIComponent(name)}${rest}`, { signal: stop.signal, base: "/own" });
        cursor = answer.cursor;
        setTrouble(answer.trouble && `The logs cannot be read: ${answer.trouble}`);
        setShown((old) => (old.cursor === answer.cursor && !answer.lines.length ? old : added(old, answer)));
      } catch (error) {
        if (!stop.signal.aborted) setTrouble((error as Refusal).message);
      }
      if (stop.signal.aborted) return;
      setAsked(true);
      timer = setTimeout(next, document.hidden ? SECONDS * 5000 : SECONDS * 1000);
    };
    void next();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [name]);
  useEffect(() => {
    if (text.current && atEnd.current) text.current.scrollTop = text.current.scrollHeight;
  }, [shown]);
  return (
    <>
      <p class="trouble" role="status" hidden={!trouble}>
        {trouble}
      </p>
      {(shown.earlier || shown.leftOut > 0) && (
        <p class="empty">
          {leftOut(shown)} left out: slotq logs {name} has all.
        </p>
      )}
      {shown.lines.length === 0 && !trouble && <p class="empty">{asked ? "Nothing yet." : "Reading…"}</p>}
      {shown.lines.length > 0 && (
        <pre
          ref={text}
          tabIndex={0}
          aria-label={`Logs of ${name}`}
          onScroll={({ currentTarget: box }) => {
            atEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
          }}
        >
          {asText(shown.lines)}
        </pre>
      )}
    </>
  );
}
