// The changes of a what-if, in the address as on the command line: `?pool=p5=4&priority=whisper=9`.

import type { Added, Change } from "./whatif";

export interface Kind {
  /** The option of `slotq whatif`. */
  option: string;
  /** What people choose it by. */
  label: string;
  of: "pool" | "project" | "job" | "new" | "setting";
  /** What the value is; nothing where the name says all. */
  value?: string;
}

export const KINDS: Kind[] = [
  { option: "pool", label: "a pool's size", of: "pool", value: "Slots" },
  { option: "more", label: "more slots for a time", of: "pool", value: "Slots and for how long, such as 2:1w" },
  { option: "set", label: "a setting", of: "setting", value: "Value, as in the configuration" },
  { option: "quota", label: "a project's quota", of: "project", value: "Slots" },
  { option: "priority", label: "a job's priority", of: "job", value: "Priority" },
  { option: "move", label: "a job's pools", of: "job", value: "Pools, separated by commas" },
  { option: "hold", label: "a job is held", of: "job" },
  { option: "release", label: "a job is released", of: "job" },
  { option: "cancel", label: "a job is cancelled", of: "job" },
  { option: "add", label: "a new job", of: "new", value: "Slots, priority" },
];

export interface Wanted {
  option: string;
  name: string;
  value: string;
}

/** What the address asks for, in the order of `KINDS`. */
export const wantedOf = (query: URLSearchParams): Wanted[] =>
  KINDS.flatMap(({ option, value }) =>
    query.getAll(option).map((text) => {
      const cut = value ? text.indexOf("=") : -1;
      return cut < 0 ? { option, name: text, value: "" } : { option, name: text.slice(0, cut), value: text.slice(cut + 1) };
    }),
  );

/** The same address with these changes instead. */
export function withWanted(query: URLSearchParams, wanted: Wanted[]): URLSearchParams {
  const next = new URLSearchParams(query);
  for (const { option } of KINDS) next.delete(option);
  for (const { option, name, value } of wanted)
    next.append(option, KINDS.find((kind) => kind.option === option)?.value ? `${name}=${value}` : name);
  return next;
}

/** The change in the simulator's form. Throws an Error whose message says what is wrong. */
export function changeOf(wanted: Wanted[], hours: number): Change {
  const changes = (option: string) => wanted.filter((change) => change.option === option);
  const names = (option: string) => changes(option).map((change) => change.name);
  const values = <Value>(option: string, read: (change: Wanted) => Value) =>
    Object.fromEntries(changes(option).map((change) => [change.name, read(change)]));
  return {
    pools: values("pool", (change) => whole(change.value, `pool ${change.name}`)),
    more: values("more", (change) => change.value.trim()),
    settings: values("set", (change) => change.value.trim()),
    quotas: values("quota", (change) => change.value.trim()),
    priorities: values("priority", (change) => change.value.trim()),
    moves: values("move", (change) => change.value.split(",").map((pool) => pool.trim())),
    holds: names("hold"),
    releases: names("release"),
    cancels: names("cancel"),
    adds: changes("add").map(added),
    hours,
  };
}

/** A new job: `add=POOL=SLOTS` or `add=POOL=SLOTS,PRIORITY`. */
function added({ name: pool, value }: Wanted, index: number): Added {
  const [slots, priority] = value.split(",").map((part) => part.trim());
  return {
    name: `new-job-${index + 1}`,
    pool,
    slots: whole(slots ?? "", "the new job"),
    ...(priority ? { priority } : {}),
  };
}

function whole(text: string, of: string): number {
  if (!/^\s*\d{1,7}\s*$/.test(text)) throw new Error(`Give ${of} a whole number of slots.`);
  return Number(text);
}

/** A change as a sentence. */
export function said({ option, name, value }: Wanted): string {
  switch (option) {
    case "pool":
      return `Pool ${name} has ${value} slots`;
    case "more": {
      const [slots, lasts] = value.split(":");
      return `Pool ${name} has ${slots} more slots for ${lasts}`;
    }
    case "set":
      return value ? `${name} is ${value}` : `${name} has its default`;
    case "quota":
      return `Project ${name} has a quota of ${value}`;
    case "priority":
      return `${name} has priority ${value}`;
    case "move":
      return `${name} accepts ${value}`;
    case "add": {
      const [slots, priority] = value.split(",");
      return `A new job asks for ${slots} slots of ${name}${priority ? `, priority ${priority}` : ""}`;
    }
    default:
      return `${name} is ${{ hold: "held", release: "released", cancel: "cancelled" }[option]}`;
  }
}
