// Times and amounts as people say them. The words are those of the command line.

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

/** How long ago a moment (ISO 8601) was. */
export const since = (moment: string, now: number): string =>
  lasting((now - Date.parse(moment)) / 1000);

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

/** A moment in the reader's own time. */
export const clock = (moment: string): string =>
  new Date(moment).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
