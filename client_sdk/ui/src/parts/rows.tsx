// A table of which only the rows in sight are drawn: a line may have thousands of jobs.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

const MARGIN = 12;

export interface Column<Row> {
  name: string;
  cell: (row: Row) => ComponentChildren;
  /** `wide`: only where there is room; `number`: set to the right. */
  kind?: "wide" | "number" | "main";
  /** Whether a row has something to say here; where none has, the column is left out. */
  of?: (row: Row) => unknown;
}

/** Rows are all of one height, which the first shows; the rest of the height is empty rows. */
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
  const first = Math.min(sight.from, Math.max(0, rows.length - 1));
  const last = Math.max(first + 1, Math.min(sight.to, rows.length));
  return (
    <table ref={table} aria-rowcount={rows.length + 1}>
      <caption class="unseen">{label}</caption>
      <thead>
        <tr>
          {shown.map((column) => (
            <th key={column.name} scope="col" class={column.kind}>
              {column.name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        <Gap rows={first} height={sight.height} span={shown.length} />
        {rows.slice(first, last).map((row, index) => (
          <tr key={keyOf(row, first + index)} data-row aria-rowindex={first + index + 2}>
            {shown.map((column) => (
              <td key={column.name} class={column.kind}>
                {column.cell(row)}
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
