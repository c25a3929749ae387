// Below a confirmation: the jobs that the policy would evict and start.

import { useEffect, useState } from "preact/hooks";
import { sentences, whatIf, type Answer, type Change } from "../whatif";

const PAUSE = 400;

export function Consequences({ change }: { change: Change }) {
  const [answer, setAnswer] = useState<Answer>();
  const [trouble, setTrouble] = useState("");
  const asked = JSON.stringify(change);
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => {
      whatIf(JSON.parse(asked) as Change, abort.signal)
        .then((found) => {
          setAnswer(found);
          setTrouble("");
        })
        .catch((error: Error) => {
          if (!abort.signal.aborted) {
            setAnswer(undefined);
            setTrouble(error.message);
          }
        });
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [asked]);
  const lines = answer ? sentences(answer) : [];
  return (
    <div role="status" class="consequences">
      {trouble && <p>What would happen is not known: {trouble}</p>}
      {!trouble && !answer && <p>Asking what would happen …</p>}
      {answer && !lines.length && <p>No other job starts or is evicted for it.</p>}
      {lines.length > 0 && (
        <ul>
          {lines.map((line) => (
            <li key={line}>{line}</li>
          ))}
        </ul>
      )}
      {answer && answer.withheld > 0 && <p>Partial: {answer.withheld} jobs of others are not named.</p>}
    </div>
  );
}
