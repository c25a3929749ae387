import { render, screen } from "@testing-library/preact";
import { expect, test, vi } from "vitest";
import { wholeGroup, type Group, type Job, type Sweep, type Trial } from "../src/api";
import { lookedFor, ranked, Trials } from "../src/views/trials";
import { questions } from "../src/views/group";
import { atOnce, GroupBar, kindOf, statesOf } from "../src/views/groups";

const job = (name: string, state: string): Job => ({ name, state, pools: ["p5"], priority: 0, user: "ada", submitter: "ada" }) as unknown as Job;
const group = (fields: Partial<Group>): Group =>
  ({ name: "g", members: 3, states: {}, gang: null, max_parallel: null, jobs: [], ...fields }) as unknown as Group;

test("kinds", () => {
  expect(kindOf(group({ max_parallel: 20 })) + atOnce(group({ max_parallel: 20 }))).toBe("sweep, 20 at once");
  expect(kindOf(group({ gang: {} as never }))).toBe("gang");
  expect(kindOf(group({ gang: { ends_with: "server" } as never }))).toBe("federated job");
});

test("a bar says in words what it shows", () => {
  const half = group({ states: { completed: 1, running: 1, failed: 1 } });
  expect(statesOf(half)).toBe("1 completed, 1 running, 1 failed");
  render(<GroupBar group={half} />);
  expect(screen.getByRole("img", { name: "g: 1 completed, 1 running, 1 failed" })).toBeTruthy();
});

test("only what fits the members is offered, and for these alone", () => {
  const mixed = group({ jobs: [job("a", "pending"), job("b", "held"), job("c", "completed")] });
  expect(questions(mixed, undefined).map((question) => question.title)).toEqual([
    "Hold: 1 job of g",
    "Release: 1 job of g",
    "Priority: 2 jobs of g",
    "Cancel: 2 jobs of g",
  ]);
  expect(questions(mixed, undefined)[3]!.change!("")).toEqual({ cancels: ["a", "b"] });
  expect(questions(group({ jobs: [job("c", "completed")] }), undefined)).toEqual([]);
});

test("a group of several pages is whole", async () => {
  const pages: Record<string, Group> = {
    "/api/groups/g": group({ jobs: [job("a", "pending")], next: "1" }),
    "/api/groups/g?next=1": group({ jobs: [job("b", "pending")], next: "2" }),
    "/api/groups/g?next=2": group({ jobs: [job("c", "pending")], next: null }),
  };
  vi.stubGlobal("fetch", (path: string) => Promise.resolve(new Response(JSON.stringify(pages[path]))));
  const whole = await wholeGroup("g", new AbortController().signal);
  vi.unstubAllGlobals();
  expect(whole.jobs.map((job) => job.name)).toEqual(["a", "b", "c"]);
  expect(whole.next).toBe(null);
});

test("a thousand jobs are not put before the simulator", () => {
  const many = group({ jobs: Array.from({ length: 201 }, (_, n) => job(`j${n}`, "pending")) });
  expect(questions(many, undefined).map((question) => question.change)).toEqual([undefined, undefined, undefined]);
});

const trial = (name: string, objective: number | null, fields: Partial<Trial> = {}): Trial =>
  ({ name, job: name, state: "completed", objective, best: false, parameters: { lr: Number(`0.${name}`) }, ...fields }) as Trial;
const sweep = (fields: Partial<Sweep> = {}): Sweep =>
  ({ metric: "loss", maximize: false, goal: null, met_by: "", trials: [trial("1", null), trial("2", 0.5), trial("3", 0.25, { best: true })], ...fields }) as Sweep;

test("trials in the order of their worth, those without one last", () => {
  expect(ranked(sweep()).map((trial) => trial.name)).toEqual(["3", "2", "1"]);
  expect(ranked(sweep({ maximize: true })).map((trial) => trial.name)).toEqual(["2", "3", "1"]);
});

test("what a sweep looks for", () => {
  expect(lookedFor(sweep())).toBe("loss, the smallest is best.");
  expect(lookedFor(sweep({ maximize: true, goal: 0.9, met_by: "7" }))).toBe("loss, the largest is best; good enough: 0.9, reached by 7.");
});

test("the best is shown with its parameters, as text", () => {
  const odd = "<img src=x onerror=alert(1)>";
  const trials = [trial("3", 0.25, { best: true, parameters: { [odd]: odd, lr: 0.3 } }), trial("4", null, { job: null, state: null })];
  render(<Trials sweep={sweep({ trials })} group="g" />);
  expect(screen.getByText("0.25")).toBeTruthy();
  expect(screen.getByText(new RegExp("lr=0.3"))).toBeTruthy();
  expect(screen.getByText("expired")).toBeTruthy();
  expect(document.querySelector("img")).toBeNull();
});
