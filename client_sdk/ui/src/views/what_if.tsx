// What if: a hypothetical change, its effects by the queue's own policy, and its application.

import { useEffect, useState } from "preact/hooks";
import { useSearchParams } from "wouter-preact";
import { useFilter } from "../address";
import { get, type Me } from "../api";
import { useLive } from "../live";
import { Deeds, type Question } from "../parts/confirmation";
import { mayOperate } from "../rights";
import { changeOf, KINDS, said, wantedOf, withWanted, type Wanted } from "../wanted";
import { apply, whatIf, type Change, type WholeAnswer } from "../whatif";
import { counted } from "../words";

const PAUSE = 300;
const HOURS = ["8", "1", "24", "72"];
const SHOWN = 200;

export function WhatIf({ me }: { me: Me | undefined }) {
  const [query, setQuery] = useSearchParams();
  const [hours, setHours] = useFilter("hours");
  const [round, setRound] = useState(0);
  const wanted = wantedOf(query);
  const put = (next: Wanted[]) => setQuery((old) => withWanted(old, next));
  const asked = useAnswer(wanted, Number(hours) || Number(HOURS[0]), round);
  return (
    <>
      <h1>What if</h1>
      <p>What would start, wait and be evicted, by the queue’s own policy. Nothing is changed until you apply it.</p>
      <Adding add={(change) => put([...wanted, change])} />
      {wanted.length > 0 && (
        <ul aria-label="The change" class="wanted">
          {wanted.map((change, index) => (
            <li key={index}>
              {said(change)}{" "}
              <button
                type="button"
                class="quiet"
                aria-label={`Leave out: ${said(change)}`}
                onClick={() => put(wanted.filter((_, other) => other !== index))}
              >
                Leave out
              </button>
            </li>
          ))}
        </ul>
      )}
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          Look ahead
          <select value={hours || HOURS[0]} onChange={(event) => setHours(event.currentTarget.value)}>
            {HOURS.map((choice) => (
              <option key={choice} value={choice}>
                {counted(Number(choice), "hour")}
              </option>
            ))}
          </select>
        </label>
        <button type="button" onClick={() => setRound((old) => old + 1)}>
          Ask again
        </button>
      </form>
      <p class="trouble" role="alert" hidden={!asked.trouble}>
        {asked.trouble}
      </p>
      <div role="status" aria-busy={asked.busy}>
        {asked.busy && <p>Asking what would happen …</p>}
        {asked.answer && <Answered answer={asked.answer} changes={wanted.length > 0} />}
      </div>
      {asked.answer && asked.change && !asked.busy && wanted.length > 0 && (
        <PutIntoForce answer={asked.answer} change={asked.change} wanted={wanted} me={me} done={() => put([])} />
      )}
    </>
  );
}

interface Asked {
  answer?: WholeAnswer;
  change?: Change;
  trouble: string;
  busy: boolean;
}

/** The simulator's answer to these changes; asked again when they, or `round`, change. */
function useAnswer(wanted: Wanted[], hours: number, round: number): Asked {
  const [state, setState] = useState<Asked>({ trouble: "", busy: true });
  const key = JSON.stringify([wanted, hours, round]);
  useEffect(() => {
    const abort = new AbortController();
    let change: Change;
    try {
      change = changeOf(wanted, hours);
    } catch (error) {
      setState({ trouble: (error as Error).message, busy: false });
      return;
    }
    setState((old) => ({ ...old, busy: true }));
    const timer = setTimeout(() => {
      whatIf(change, abort.signal)
        .then((answer) => setState({ answer, change, trouble: "", busy: false }))
        .catch((error: Error) => {
          if (!abort.signal.aborted) setState({ trouble: error.message, busy: false });
        });
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [key]);
  return state;
}

function Adding({ add }: { add: (wanted: Wanted) => void }) {
  const [option, setOption] = useState(KINDS[0]!.option);
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const pools = useLive("pools", (signal) => get("/pools", {}, signal), 60);
  const projects = useLive("projects", (signal) => get("/projects", {}, signal), 60);
  const kind = KINDS.find((kind) => kind.option === option)!;
  const names = {
    pool: pools.value?.pools.map((pool) => pool.name),
    new: pools.value?.pools.map((pool) => pool.name),
    project: projects.value?.projects.map((project) => project.name),
    job: undefined,
    setting: undefined,
  }[kind.of];
  const chosen = names ? (names.includes(name) ? name : (names[0] ?? "")) : name.trim();
  return (
    <form
      class="filters"
      aria-label="Add a change"
      onSubmit={(event) => {
        event.preventDefault();
        add({ option, name: chosen, value: kind.value ? value.trim() : "" });
        setValue("");
      }}
    >
      <label>
        Change
        <select value={option} onChange={(event) => setOption(event.currentTarget.value)}>
          {KINDS.map((kind) => (
            <option key={kind.option} value={kind.option}>
              {kind.label}
            </option>
          ))}
        </select>
      </label>
      {names ? (
        <label>
          {kind.of === "project" ? "Project" : "Pool"}
          <select value={chosen} onChange={(event) => setName(event.currentTarget.value)}>
            {names.map((choice) => (
              <option key={choice}>{choice}</option>
            ))}
          </select>
        </label>
      ) : (
        <label>
          {kind.of === "setting" ? "Setting, such as fair_share.half_life" : "Job"}
          <input required value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
      )}
      {kind.value && (
        <label>
          {kind.value}
          <input required={kind.of !== "setting"} value={value} onInput={(event) => setValue(event.currentTarget.value)} />
        </label>
      )}
      <button type="submit" disabled={!chosen}>
        Add
      </button>
    </form>
  );
}

function Answered({ answer, changes }: { answer: WholeAnswer; changes: boolean }) {
  const { words } = answer;
  return (
    <>
      <p class="empty">{words.head}</p>
      {words.partial.map((sentence) => (
        <p key={sentence} class="trouble">
          {sentence}
        </p>
      ))}
      <h2>Now</h2>
      {answer.now.length === 0 && <p>{words.quiet}</p>}
      {answer.now.length > 0 && (
        <Table
          heads={changes ? ["Job", "Without the change", "With it"] : ["Job", "Now"]}
          rows={answer.now.map((row, index) => {
            const { before, after } = words.now[index]!;
            return changes ? [row.job, before, after] : [row.job, after];
          })}
        />
      )}
      {changes && (
        <>
          <h2>The time after</h2>
          {answer.timeline.length === 0 && <p>{words.same}</p>}
          {answer.timeline.length > 0 && (
            <Table
              heads={["Job", "", "Without the change", "With it"]}
              rows={answer.timeline.map((row, index) => {
                const { event, before, after } = words.timeline[index]!;
                return [row.job, event, before, after];
              })}
            />
          )}
        </>
      )}
      {changes && (
        <>
          <h2>The two worlds</h2>
          <Table
            heads={["Project", "Without the change", "With it"]}
            rows={words.worlds.map(({ project, before, after }) => [project || "–", before, after])}
          />
        </>
      )}
      {words.costs.length > 0 && (
        <>
          <h2>What it costs</h2>
          <Table
            heads={changes ? ["Pool", "Kind", "Without the change", "With it"] : ["Pool", "Kind", "Instances"]}
            rows={words.costs.map(({ pool, kind, before, after }) => (changes ? [pool, kind, before, after] : [pool, kind, after]))}
          />
          <p class="empty">{words.prices}</p>
        </>
      )}
    </>
  );
}

function Table({ heads, rows }: { heads: string[]; rows: string[][] }) {
  return (
    <>
      <table class="attempts">
        <thead>
          <tr>
            {heads.map((head) => (head ? <th scope="col">{head}</th> : <td />))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, SHOWN).map((row, index) => (
            <tr key={index}>
              {row.map((cell) => (
                <td class="message">{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > SHOWN && <p class="empty">And {counted(rows.length - SHOWN, "row")} more: slotq whatif --json has all.</p>}
    </>
  );
}

function PutIntoForce({
  answer,
  change,
  wanted,
  me,
  done,
}: {
  answer: WholeAnswer;
  change: Change;
  wanted: Wanted[];
  me: Me | undefined;
  done: () => void;
}) {
  const operates = wanted.some(({ option }) => ["pool", "quota", "set"].includes(option));
  const inThought = wanted.some((change) => change.option === "add");
  const toBuy = wanted.some((change) => change.option === "more");
  const offered = !inThought && !toBuy && (!operates || mayOperate(me));
  const question: Question = {
    name: "Apply",
    title: "Apply the change",
    says: `${wanted.map(said).join("; ")}. The configuration is changed first, if nobody has changed it meanwhile, then each job.`,
    act: async () => {
      const { done: steps, refused } = await apply(change, answer.revision);
      if (refused) throw new Error(`Done: ${steps.join("; ")}. The next was refused: ${refused}`);
    },
  };
  return (
    <section aria-labelledby="force">
      <h2 id="force">Put it into force</h2>
      {inThought && <p>A job in thought has no request yet: submit it under Submit.</p>}
      {toBuy && <p>Slots for a time are only asked: buy them, then change the pool.</p>}
      {!inThought && !toBuy && !offered && <p>The configuration is changed by operators: hand them the diff.</p>}
      {offered && <Deeds of={[question]} done={done} />}
      {answer.diff && (
        <details open={!offered}>
          <summary>The change of the configuration, as a diff</summary>
          <pre tabIndex={0}>{answer.diff}</pre>
        </details>
      )}
    </section>
  );
}
