import { cleanup, render, screen } from "@testing-library/preact";
import { afterEach, expect, test, vi } from "vitest";
import type { Project } from "../src/api";
import { Projects, spent } from "../src/views/projects";

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const budget = (hours: number, beyond = "soft") => ({ slot_seconds: 500 * 3600, beyond, spent_slot_seconds: hours * 3600, resets_at: "2026-12-01T00:00:00.000Z" });

test.each([
  [412.5, "412.5 of 500 slot-hours (soft)"],
  [0.0005, "0 of 500 slot-hours (soft)"],
  [512, "512 of 500 slot-hours (soft)"],
])("%d slot-hours are spent", (hours, said) => expect(spent(budget(hours))).toBe(said));

test("a project shows what it has spent of its budget, and what comes then", async () => {
  const project: Project = { name: "vision", project: {}, used: {}, standings: [], budget: budget(412.5, "hard") };
  vi.stubGlobal("fetch", async () => new Response(JSON.stringify({ projects: [project, { ...project, name: "speech", budget: null }] })));
  render(<Projects />);
  await screen.findByText("budget: 412.5 of 500 slot-hours (hard), until 2026-12-01 00:00:00 UTC; beyond it, nothing of the project starts.");
  expect(screen.getByRole("img", { name: "vision: spent 412.5 of 500 slot-hours (hard)" })).toBeTruthy();
  expect(screen.queryByText(/^budget/)).toBeTruthy();
});

test("a project shows its part of past use, if that counts", async () => {
  const status = { pool: "", resource: "slots", quota: 2, share: 3, limit: null, held: 2, stopping: 0, waiting: 1, over_quota: 0, past_use: 45.3, due: 25 };
  const project: Project = { name: "vision", project: {}, used: {}, standings: [status], budget: null };
  const speech = { ...project, name: "speech", standings: [{ ...status, past_use: null, due: null }] };
  vi.stubGlobal("fetch", async () => new Response(JSON.stringify({ projects: [project, speech] })));
  render(<Projects />);
  await screen.findByText(/1 more are asked for\. It has 45\.3 % of past use; its weight deserves 25 %\./);
  expect(screen.getAllByText(/past use/)).toHaveLength(1);
});

test("departments come before their projects", async () => {
  const status = { pool: "", resource: "slots", quota: 4, share: 5, limit: null, held: 3, stopping: 0, waiting: 2, over_quota: 0, past_use: null, due: null };
  const project: Project = { name: "vision", project: {}, used: {}, standings: [], budget: null };
  const science = { name: "science", department: { name: "science" }, standings: [status] };
  vi.stubGlobal("fetch", async () => new Response(JSON.stringify({ projects: [project], departments: [science] })));
  render(<Projects />);
  await screen.findByText(/slots: holds 3 of a quota of 4; its fair share now is 5; 2 more are asked for\./);
  expect(screen.getAllByRole("heading", { level: 2 }).map((heading) => heading.textContent)).toEqual(["Department science", "vision"]);
});
