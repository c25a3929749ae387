// Before anything is changed: what will happen, and the question whether it shall.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Change } from "../whatif";
import { Consequences } from "../views/consequences";

export interface Question {
  /** The deed in a word, as its button says it. */
  name: string;
  title: string;
  /** What will happen, as a sentence. */
  says: string;
  /** The value to enter, with the present one. */
  asks?: { label: string; value: string };
  /** The same for the simulator, which forecasts starts and evictions. */
  change?: (value: string) => Change;
  /** Do it. Throws an Error whose message is shown. */
  act: (value: string) => Promise<void>;
}

export function Confirmation({ of, close }: { of: Question; close: (changed: boolean) => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [value, setValue] = useState(of.asks?.value ?? "");
  const [trouble, setTrouble] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);
  const act = async () => {
    setBusy(true);
    try {
      await of.act(value);
      close(true);
    } catch (error) {
      setTrouble((error as Error).message);
      setBusy(false);
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
        <h2 id="deed">{of.title}</h2>
        <p>{of.says}</p>
        {of.asks && (
          <label>
            {of.asks.label}
            <input value={value} onInput={(event) => setValue(event.currentTarget.value)} />
          </label>
        )}
        {of.change && <Consequences change={of.change(value)} />}
        <p class="trouble" role="alert" hidden={!trouble}>
          {trouble}
        </p>
        <div class="actions">
          <button type="submit" disabled={busy}>
            {of.name}
          </button>
          <button type="button" class="quiet" onClick={() => dialog.current?.close()}>
            Leave it
          </button>
        </div>
      </form>
    </dialog>
  );
}

/** Buttons, each of which asks its question first. `done`: after a deed. */
export function Deeds({ of, done }: { of: Question[]; done: () => void }) {
  const [asked, setAsked] = useState<Question>();
  if (!of.length) return null;
  return (
    <div class="actions">
      {of.map((question) => (
        <button type="button" key={question.name} onClick={() => setAsked(question)}>
          {question.name}
        </button>
      ))}
      {asked && (
        <Confirmation
          of={asked}
          close={(changed) => {
            setAsked(undefined);
            if (changed) done();
          }}
        />
      )}
    </div>
  );
}
