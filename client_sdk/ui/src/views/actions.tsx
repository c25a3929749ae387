// What the caller may do with a job. Each asks for a confirmation that says what will happen; the
// queue itself refuses what the caller may not do, and its message is shown.

import { useEffect, useRef, useState } from "preact/hooks";
import { call, ofJob, type Job } from "../api";
import { isActive, waits } from "../parts/state";

interface Deed {
  name: string;
  /** What will happen, as a sentence. */
  says: string;
  method: "PATCH" | "DELETE";
  body?: (value: string) => unknown;
  /** What else must be said, with its present value. */
  asks?: { label: string; value: string };
}

export function deeds(job: Job): Deed[] {
  const found: Deed[] = [];
  if (job.state === "held")
    found.push({
      name: "Release",
      says: "The job may start again. Its place is that of its entry time.",
      method: "PATCH",
      body: () => ({ held: false }),
    });
  else if (waits(job))
    found.push({
      name: "Hold",
      says: "The job does not start until it is released. It keeps its entry time.",
      method: "PATCH",
      body: () => ({ held: true }),
    });
  if (waits(job) || isActive(job))
    found.push({
      name: "Priority",
      says: waits(job)
        ? "The job moves in its lines at once. With a higher priority it may evict others."
        : "With a lower priority the job may be evicted for others.",
      method: "PATCH",
      body: (value) => ({ tags: { priority: value.trim() } }),
      asks: { label: "New priority", value: job.priority_class || String(job.priority) },
    });
  if (waits(job))
    found.push({
      name: "Move",
      says: "The job accepts these pools from now on, the most welcome first.",
      method: "PATCH",
      body: (value) => ({ tags: { "slotq:pools": value.replaceAll(" ", "") } }),
      asks: { label: "Pools, separated by commas", value: job.pools.join(",") },
    });
  if (waits(job))
    found.push({ name: "Cancel", says: "The job ends and does not run.", method: "DELETE" });
  if (job.state === "starting" || job.state === "running")
    found.push({
      name: "Requeue",
      says: "Its training job is stopped. The job waits again, at its entry time and with its checkpoints.",
      method: "PATCH",
      body: () => ({ give_up: job.attempts_begun }),
    });
  if (isActive(job))
    found.push({
      name: "Cancel",
      says: "Its training job is stopped, and the job does not run again. What it has not saved is lost.",
      method: "DELETE",
    });
  return found;
}

export function Actions({ job, done }: { job: Job; done: () => void }) {
  const [deed, setDeed] = useState<Deed>();
  const offered = deeds(job);
  if (!offered.length) return null;
  return (
    <div class="actions">
      {offered.map((each) => (
        <button type="button" key={each.name} onClick={() => setDeed(each)}>
          {each.name}
        </button>
      ))}
      {deed && (
        <Confirmation
          job={job}
          deed={deed}
          close={(changed) => {
            setDeed(undefined);
            if (changed) done();
          }}
        />
      )}
    </div>
  );
}

function Confirmation({ job, deed, close }: { job: Job; deed: Deed; close: (changed: boolean) => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [value, setValue] = useState(deed.asks?.value ?? "");
  const [trouble, setTrouble] = useState("");
  useEffect(() => dialog.current?.showModal(), []);
  const act = async () => {
    try {
      await call(deed.method, ofJob(job.name), deed.body ? { body: deed.body(value) } : {});
      close(true);
    } catch (error) {
      setTrouble((error as Error).message);
    }
  };
  return (
    <dialog ref={dialog} aria-labelledby="deed" onClose={() => close(false)}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void act();
        }}
      >
        <h2 id="deed">
          {deed.name}: {job.name}
        </h2>
        <p>{deed.says}</p>
        {deed.asks && (
          <label>
            {deed.asks.label}
            <input value={value} onInput={(event) => setValue(event.currentTarget.value)} />
          </label>
        )}
        <p class="trouble" role="alert" hidden={!trouble}>
          {trouble}
        </p>
        <div class="actions">
          <button type="submit">{deed.name}</button>
          <button type="button" class="quiet" onClick={() => dialog.current?.close()}>
            Leave it
          </button>
        </div>
      </form>
    </dialog>
  );
}
