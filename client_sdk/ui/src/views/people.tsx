// A person's used and total slots by class and pool.

import { useFilter } from "../address";
import { get } from "../api";
import { useKnown, useLive } from "../live";
import { Bar } from "../parts/bar";
import { Trouble } from "../parts/trouble";
import { person } from "../words";

export function People() {
  const [user, setUser] = useFilter("user");
  const asked: Record<string, string> = user ? { user } : {};
  const live = useKnown(useLive(`quota ${user}`, (signal) => get("/quota", asked, signal), 5));
  return (
    <>
      <h1>People</h1>
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <label>
          Whose slots
          <select value={user} onChange={(event) => setUser(event.currentTarget.value)}>
            <option value="">mine</option>
            <option value="everyone">everyone's (operators)</option>
          </select>
        </label>
      </form>
      <Trouble of={[live]} />
      {live.value?.quotas.length === 0 && <p class="empty">Nobody is limited and nobody holds slots.</p>}
      {live.value && live.value.quotas.length > 0 && (
        <table>
          <thead>
            <tr>
              <th scope="col">Who</th>
              <th scope="col">Pool</th>
              <th scope="col">Class</th>
              <th scope="col" class="number">
                Used
              </th>
              <th scope="col" class="number">
                Total
              </th>
              <th scope="col">
                <span class="unseen">As a bar</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {live.value.quotas.map((quota) => (
              <tr key={`${quota.user} ${quota.pool} ${quota.priority_class}`}>
                <td title={quota.user}>{person(quota.user)}</td>
                <td>{quota.pool}</td>
                <td>{quota.priority_class}</td>
                <td class="number">{quota.used}</td>
                <td class="number">{quota.total ?? "no limit"}</td>
                <td>
                  {quota.total != null && (
                    <Bar
                      pieces={[{ kind: "used", name: "used", amount: quota.used }]}
                      total={quota.total}
                      label={`${quota.used} of ${quota.total}`}
                    />
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}
