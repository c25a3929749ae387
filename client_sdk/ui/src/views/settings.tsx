// The operator's settings, and who changed them.

import { get, type Change } from "../api";
import { useLive } from "../live";
import { Moment } from "../parts/moment";
import { Trouble } from "../parts/trouble";
import { person } from "../words";

export function Settings() {
  const configuration = useLive("configuration", (signal) => get("/configuration", {}, signal), 30);
  const changes = useLive("changes", (signal) => get("/changes", { limit: "50" }, signal), 30);
  return (
    <>
      <h1>Settings</h1>
      <Trouble of={[configuration, changes]} />
      {configuration.value && (
        <section aria-labelledby="configuration">
          <h2 id="configuration">
            Configuration <small>revision {configuration.value.revision}</small>
          </h2>
          <pre tabIndex={0}>{JSON.stringify(configuration.value.configuration, null, 2)}</pre>
        </section>
      )}
      {changes.value && changes.value.changes.length > 0 && (
        <section aria-labelledby="changes">
          <h2 id="changes">Changes</h2>
          <ul class="changes">
            {changes.value.changes.map((change) => (
              <li key={change.revision}>
                <details>
                  <summary>
                    Revision {change.revision}: <Moment at={change.at} />, {person(change.who)}: {touched(change)}
                  </summary>
                  <pre tabIndex={0}>{JSON.stringify(change, null, 2)}</pre>
                </details>
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

/** What a change touched, by name. */
function touched(change: Change): string {
  const names = [
    ...change.pools.map((pool) => `pool ${pool.name}`),
    ...change.entries.map((entry) => [entry.section, entry.name].filter(Boolean).join(" ")),
    ...(change.limits ? ["limits"] : []),
  ];
  return names.join(", ") || "the order of pools";
}
