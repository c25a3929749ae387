import { clock, here } from "../words";

/** A moment in UTC, as the terminal has it; in the reader's own time where one points. */
export const Moment = ({ at, as = clock }: { at: string; as?: (moment: string) => string }) => (
  <time dateTime={at} title={here(at)}>
    {as(at)}
  </time>
);
