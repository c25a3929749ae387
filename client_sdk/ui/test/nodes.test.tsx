import { cleanup, render, screen, within } from "@testing-library/preact";
import { afterEach, expect, test, vi } from "vitest";
import type { Job, JobOnNode, KeptNode } from "../src/api";
import { cellsOf, Nodes, summaryOf } from "../src/views/nodes";
import { held } from "../src/views/queue";
import { clock } from "../src/words";

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const MOMENT = "2026-11-20T11:00:00.000Z";
const on = (name: string, ...gpu_ids: number[]): JobOnNode =>
  ({ name, project: "", state: "running", gpus: gpu_ids.length, gpu_ids, gpu_bound: "none" });
const node = (fields: Partial<KeptNode> = {}): KeptNode =>
  ({ pool: "p5", name: "node-1", state: "ready", project: "", gpus: 4, free: [3], jobs: [on("a", 0, 2), on("", 1)], owed: [], ...fields }) as KeptNode;

function answers(nodes: KeptNode[]) {
  vi.stubGlobal("fetch", async () => new Response(JSON.stringify({ version: 1, nodes })));
}

test("each GPU has one cell, with the jobs that have it", () => {
  expect(cellsOf(node()).map((jobs) => jobs.map((job) => job.name))).toEqual([["a"], [""], ["a"], []]);
});

test("a node says its state, whose it is, what is free, and until when it stays", () => {
  expect(summaryOf(node())).toBe("ready, 1 of 4 GPUs free");
  const idle = node({ jobs: [], free: [0, 1, 2, 3], project: "vision", kept_until: MOMENT });
  expect(summaryOf(idle)).toBe(`ready, of vision, 4 of 4 GPUs free, kept until ${clock(MOMENT)}`);
});

test("the page links jobs, and names none that the caller may not see", async () => {
  answers([node({ owed: [{ name: "next", project: "", state: "pending", gpus: 2, gpu_ids: [], gpu_bound: "none" }] })]);
  render(<Nodes pace={3} />);
  const shown = await screen.findByRole("article", { name: "p5/node-1" });
  const cells = within(shown).getAllByRole("listitem").map((cell) => cell.textContent);
  expect(cells).toEqual(["GPU 0 a", "GPU 1 another's job", "GPU 2 a", "GPU 3 free"]);
  expect(within(shown).getAllByRole("link").map((link) => link.getAttribute("href"))).toEqual(["/jobs/a", "/jobs/a", "/jobs/next"]);
  expect(within(shown).getByText(/waits for 2 GPUs/)).toBeTruthy();
});

test("the problems of a node's agent stand above its GPUs", async () => {
  answers([node({ problems: ["the route does not answer"] }), node({ name: "node-2" })]);
  render(<Nodes pace={3} />);
  const shown = await screen.findByRole("article", { name: "p5/node-1" });
  expect(within(shown).getByRole("list", { name: "Problems" }).textContent).toBe("the route does not answer");
  const other = screen.getByRole("article", { name: "p5/node-2" });
  expect(within(other).queryByRole("list", { name: "Problems" })).toBeNull();
});

test("a part of a GPU says what holds its job to it", async () => {
  const parts = [{ ...on("a", 0), gpus: 0.25, gpu_bound: "mps" }, { ...on("b", 0), gpus: 0.5, gpu_bound: "mps" }];
  answers([node({ gpus: 1, free: [], left: [0.25], jobs: parts })]);
  render(<Nodes pace={3} />);
  expect((await screen.findByRole("listitem")).textContent).toBe("GPU 0 a by MPS 0.25 b by MPS 0.50, 0.25 free");
});

test("a queue without nodes says when one comes", async () => {
  answers([]);
  render(<Nodes pace={3} />);
  expect(await screen.findByText(/No node is there/)).toBeTruthy();
});

test("a job on a node has GPUs, another one slots", () => {
  expect(held({ node: "node-1", gpus: 1, demand: { slots: 1 } } as unknown as Job)).toBe("1 GPU of node-1");
  expect(held({ node: null, gpus: 0, demand: { slots: 2 } } as unknown as Job)).toBe(2);
});
