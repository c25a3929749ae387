// A table of jobs or the like. On a narrow page each row is a card, which has all the columns. A short table is drawn
// whole, and its rows are as high as what they say. Of a long one only the rows in sight are drawn: a line may have
// thousands of jobs. Its rows are of one height.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

const MARGIN = 12;
/** The most rows that are drawn whole. */
export const MOST_WHOLE = 100;

export interface Column<Row> {
  name: string;
  cell: (row: Row, index: number) => ComponentChildren;
  /** `main`: the row's name; `number`: set to the right; `why`: sentences, which may take several lines. */
  kind?: "number" | "main" | "why";
  /** Whether it needs no name beside it on a card. */
  plain?: boolean;
  /** Whether a row has a value here; a column without values is left out. */
  of?: (row: Row) => unknown;
}

/** The rows of a long table are of one height, which the first shows; the rest of the height is empty rows. */
export function Rows<Row>({
  rows,
  columns,
  keyOf,
  label,
  empty,
}: {
  rows: Row[];
  columns: Column<Row>[];
  keyOf: (row: Row, index: number) => string;
  label: string;
  empty: string;
}) {
  const table = useRef<HTMLTableElement>(null);
  const [sight, setSight] = useState({ from: 0, to: 60, height: 36 });
  useLayoutEffect(() => {
    const look = () => {
      const element = table.current;
      if (!element) return;
      const row = element.tBodies[0]?.querySelector("tr[data-row]");
      const height = row?.getBoundingClientRect().height || 36;
      const top = -(element.tBodies[0]?.getBoundingClientRect().top ?? 0);
      const from = Math.max(0, Math.floor(top / height) - MARGIN);
      const to = Math.ceil((top + innerHeight) / height) + MARGIN;
      setSight((old) =>
        old.from === from && old.to === to && old.height === height ? old : { from, to, height },
      );
    };
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [rows.length]);
  if (!rows.length) return <p class="empty">{empty}</p>;
  const shown = columns.filter((column) => !column.of || rows.some(column.of));
  const isLong = rows.length > MOST_WHOLE;
  const first = isLong ? Math.min(sight.from, rows.length - 1) : 0;
  const last = isLong ? Math.max(first + 1, Math.min(sight.to, rows.length)) : rows.length;
  // Explicit roles: elements displayed as cards lose their own.
  return (
    <table ref={table} role="table" class={isLong ? "rows long" : "rows"} aria-rowcount={rows.length + 1}>
      <caption class="unseen">{label}</caption>
      <thead role="rowgroup">
        <tr role="row">
          {shown.map((column) => (
            <th key={column.name} role="columnheader" scope="col" class={column.kind}>
              {column.name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        <Gap rows={first} height={sight.height} span={shown.length} />
        {rows.slice(first, last).map((row, index) => (
          <tr key={keyOf(row, first + index)} role="row" data-row aria-rowindex={first + index + 2}>
            {shown.map((column) => (
              <td
                key={column.name}
                role="cell"
                class={column.kind}
                data-label={column.plain || column.kind === "main" || column.kind === "why" ? undefined : column.name}
              >
                {isLong && column.kind === "why" ? <div>{column.cell(row, first + index)}</div> : column.cell(row, first + index)}
              </td>
            ))}
          </tr>
        ))}
        <Gap rows={rows.length - last} height={sight.height} span={shown.length} />
      </tbody>
    </table>
  );
}

function Gap({ rows, height, span }: { rows: number; height: number; span: number }) {
  const cell = useRef<HTMLTableCellElement>(null);
  // Set through the object model, which the Content-Security-Policy allows, unlike an attribute.
  useLayoutEffect(() => {
    if (cell.current) cell.current.style.height = `${rows * height}px`;
  }, [rows, height]);
  return rows > 0 ? (
    <tr aria-hidden="true" class="gap">
      <td ref={cell} colSpan={span} />
    </tr>
  ) : null;
}
