import { cleanup, render, screen, within } from "@testing-library/preact";
import { afterEach, expect, test } from "vitest";
import { MOST_WHOLE, Rows, type Column } from "../src/parts/rows";

afterEach(cleanup);

const COLUMNS: Column<number>[] = [
  { name: "Job", cell: (row) => <a href="/">{`pytorch-training-2026-11-26-10-15-40-${row}`}</a>, kind: "main" },
  { name: "Slots", cell: () => 1, kind: "number" },
  { name: "Why", cell: (row) => `${row} jobs are ahead`, kind: "why" },
];
const shown = (rows: number) =>
  render(<Rows label="Jobs" rows={Array.from({ length: rows }, (_, n) => n)} columns={COLUMNS} keyOf={String} empty="none" />);

test("a short table is drawn whole, names and reasons too", () => {
  shown(MOST_WHOLE);
  expect(document.querySelectorAll("tr[data-row]").length).toBe(MOST_WHOLE);
  expect(screen.getByRole("link", { name: "pytorch-training-2026-11-26-10-15-40-99" })).toBeTruthy();
  expect(screen.getByText("99 jobs are ahead")).toBeTruthy();
});

test("of a long one the rows in sight", () => {
  shown(5000);
  expect(document.querySelectorAll("tr[data-row]").length).toBeLessThan(100);
  expect(screen.getByRole("table").getAttribute("aria-rowcount")).toBe("5001");
});

test("a card has all columns, named where they do not speak for themselves", () => {
  shown(1);
  const cells = within(screen.getByRole("table", { name: "Jobs" })).getAllByRole("cell");
  expect(cells.map((cell) => cell.getAttribute("data-label"))).toEqual([null, "Slots", null]);
  expect(screen.getAllByRole("columnheader").map((head) => head.textContent)).toEqual(["Job", "Slots", "Why"]);
});
