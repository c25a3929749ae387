// Times and amounts as people say them. The words are those of the command line: test/words.json has both sides' examples.

const UNITS: [number, string][] = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

/** A duration (seconds) in its two largest units: `3 h 20 min`. */
export function lasting(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const first = UNITS.findIndex(([size]) => whole >= size);
  if (first < 0) return "0 s";
  const [size, unit] = UNITS[first]!;
  const said = `${Math.floor(whole / size)} ${unit}`;
  const second = UNITS[first + 1];
  const rest = second ? Math.floor((whole % size) / second[0]) : 0;
  return rest ? `${said} ${rest} ${second![1]}` : said;
}

/** A duration (seconds) in few letters, for tables: `45s`, `12m`, `3h05`, `2d04h`. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const [minutes, hours, days] = [60, 3_600, 86_400].map((size) => Math.floor(whole / size)) as [number, number, number];
  const two = (number: number) => String(number).padStart(2, "0");
  if (days) return `${days}d${two(hours % 24)}h`;
  if (hours) return `${hours}h${two(minutes % 60)}`;
  return minutes ? `${minutes}m` : `${whole}s`;
}

/** How long ago a moment (ISO 8601) was, for tables. */
export const since = (moment: string, now: number): string => duration((now - Date.parse(moment)) / 1000);

export const counted = (number: number, one: string, many = `${one}s`): string =>
  `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

/** `arn:aws:sts::1:assumed-role/team/ada` → `ada`. */
export const person = (arn: string): string => arn.split("/").at(-1) ?? arn;

export const amount = (demand: Record<string, number>): string =>
  Object.entries(demand)
    .map(([name, number]) => (name === "slots" ? counted(number, "slot") : `${number} ${name}`))
    .join(", ");

export const ordinal = (number: number): string => {
  const rest = number % 100 > 10 && number % 100 < 14 ? 0 : number % 10;
  return `${number.toLocaleString("en")}${["th", "st", "nd", "rd"][rest] ?? "th"}`;
};

const utc = (moment: string): string => new Date(moment).toISOString();

/** A moment as sentences have it: `2026-11-20 10:30:00 UTC`. */
export const clock = (moment: string): string => `${utc(moment).slice(0, 19).replace("T", " ")} UTC`;

/** A moment (UTC) in few letters, for tables: `11-20 10:30:00`. */
export const short = (moment: string): string => utc(moment).slice(5, 19).replace("T", " ");

/** The same in the reader's own time, for where one points. */
export const here = (moment: string): string =>
  new Date(moment).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });

/** At most so many letters of a name, cut in its middle: names of one kind differ at their ends. */
export function shortened(name: string, most: number): string {
  if (name.length <= most) return name;
  const head = Math.floor((most - 1) * 0.4);
  return `${name.slice(0, head)}…${name.slice(name.length - (most - 1 - head))}`;
}
