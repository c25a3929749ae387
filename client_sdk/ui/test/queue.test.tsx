import { cleanup, render, screen, within } from "@testing-library/preact";
import { afterEach, expect, test, vi } from "vitest";
import type { Job, Pool, Project } from "../src/api";
import { boughtAs, hoursOf, Queue, reservedIn, troubleOf, warmOf } from "../src/views/queue";
import { inSlots } from "../src/views/tiles";
import { clock } from "../src/words";

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const MOMENT = "2026-11-20T11:00:00.000Z";
const plan = (unhealthy: number) =>
  ({ arn: "a", status: "active", read_at: MOMENT, unhealthy }) as unknown as Pool["health"]["plan"];
const pool = (size: number, health: Partial<Pool["health"]>, foreign = 0): Pool =>
  ({
    capacity: { slots: 4 },
    foreign: { slots: foreign },
    size: { slots: size },
    health: { errors: 0, message: "", missing_rights: [], ...health },
  }) as unknown as Pool;

test.each([
  ["a healthy pool has no trouble", pool(4, {}), ""],
  ["foreign use is no trouble", pool(3, {}, 1), ""],
  ["a limit that is over is no trouble", pool(4, { learned: 2, learned_until: MOMENT, message: "full" }), ""],
  [
    "a learned limit has its end and SageMaker's sentence",
    pool(2, { learned: 2, learned_until: MOMENT, message: "is 2 Instances" }),
    `The account allows 2 slots until ${clock(MOMENT)}. is 2 Instances`,
  ],
  [
    "a back-off has its end",
    pool(4, { errors: 1, not_before: MOMENT, message: "no capacity" }),
    `Next try at ${clock(MOMENT)}. no capacity`,
  ],
  [
    "broken instances of a training plan are told",
    pool(3, { plan: plan(1) }),
    "1 instance of the training plan is unhealthy.",
  ],
  [
    "a limit beside broken instances has SageMaker's sentence",
    pool(1, { plan: plan(2), learned: 1, learned_until: MOMENT, message: "is 1" }),
    `2 instances of the training plan are unhealthy. The account allows 1 slot until ${clock(MOMENT)}. is 1`,
  ],
])("%s", (_, of, said) => expect(troubleOf(of)).toBe(said));

test.each([
  ["on_demand", ""],
  ["plan", ", plan"],
  [undefined, ""],
])("bought as %s", (kind, said) => expect(boughtAs({ settings: { capacity_kind: kind } } as unknown as Pool)).toBe(said));

test.each<[Pool["hours"], string]>([
  [null, ""],
  [{ slots: 0, cause: "window", changes_at: MOMENT, then: 4, moment: "20:00 UTC, 20 Nov", why: "" }, "Opens at 20:00 UTC, 20 Nov."],
  [{ slots: 0, cause: "window", changes_at: null, then: null, moment: "", why: "" }, "Closed."],
  [{ slots: 4, cause: "open", changes_at: MOMENT, then: 0, moment: "08:00 UTC, 21 Nov", why: "" }, "Open until 08:00 UTC, 21 Nov."],
  [{ slots: 1, cause: "window", changes_at: MOMENT, then: 4, moment: "08:00 UTC, 21 Nov", why: "" }, "Offers 1 slot until 08:00 UTC, 21 Nov, then 4 slots."],
  [{ slots: 4, cause: "open", changes_at: null, then: null, moment: "", why: "" }, "Open."],
  [
    { slots: 0, cause: "plan", changes_at: null, then: null, moment: "", why: "its training plan june has failed" },
    "No slots: its training plan june has failed.",
  ],
])("%j", (hours, said) => expect(hoursOf({ ...pool(4, {}), hours })).toBe(said));

test("a pool shows what is reserved now, and the next", () => {
  const reservation = (project: string, in_force: boolean, moment: string) =>
    ({ pool: "p5", project, slots: 2, begins: MOMENT, ends: MOMENT, zone: "UTC", in_force, moment });
  expect(reservedIn(pool(4, {}))).toBe("");
  const reserved = [reservation("vision", true, "20:00 UTC, 2 Dec"), reservation("speech", false, "08:00 UTC, 3 Dec"), reservation("later", false, "9 Dec")];
  expect(reservedIn({ ...pool(4, {}), reserved })).toBe(
    "2 slots reserved for vision until 20:00 UTC, 2 Dec. 2 slots reserved for speech from 08:00 UTC, 3 Dec.",
  );
});

const job = (name: string, state: string, fields: Partial<Job> = {}): Job =>
  ({ name, state, pools: ["p5"], pool: null, priority: 0, demand: { slots: 1 }, user: "ada", submitter: "ada", project: "", changed_at: MOMENT, entry_time: MOMENT, ...fields }) as unknown as Job;
const named = (name: string, used: number): Pool =>
  ({ ...pool(4, {}), name, used: { slots: used }, instance_type: "ml.p5.48xlarge", settings: { state: "active" } }) as unknown as Pool;
const status = (held: number, share: number, resource = "slots") => ({ pool: "", resource, quota: 2, share, limit: null, held, stopping: 0, waiting: 0, over_quota: 0, past_use: null, due: null });
const project = (name: string, ...standings: ReturnType<typeof status>[]): Project => ({ name, standings, project: {}, used: {}, budget: null });

function answers(said: Record<string, unknown>) {
  vi.stubGlobal("fetch", async (address: string) => {
    const answer = said[new URL(address, "http://localhost").pathname.replace("/api", "")];
    return new Response(JSON.stringify(answer ?? { message: "you may not" }), { status: answer ? 200 : 403 });
  });
}

test("a pool says what stays warm", () => {
  const slot = (state: string, until: string) => ({ slots: 1, state, since: "2026-11-20T10:00:00.000Z", until: `2026-11-20T${until}:00.000Z` });
  const warm = [slot("idle", "10:20"), slot("idle", "10:10"), slot("releasing", "10:30"), slot("reused", "10:30")];
  expect(warmOf({ ...pool(4, {}), warm })).toBe(
    "2 slots warm for matching jobs, until 2026-11-20 10:20:00 UTC at the latest. 1 warm slot being released. 1 warm slot used outside the queue.",
  );
  expect(warmOf({ ...pool(4, {}), warm: [] })).toBe("");
});

test("each line has places of its own, without a gap, in the queue's order", async () => {
  const why = { kind: "blocked", text: "needs 2 slots; pool p5 has 0 free of 4" };
  const jobs = [
    job("only-p4", "pending", { pools: ["p4"], place: 1 }),
    job("also-p4", "pending", { pools: ["p4"], place: 2 }),
    job("only-p5", "pending", { place: 1 }),
    job("both", "pending", { pools: ["p5", "p4"], place: 4 }),
    job("last", "pending", { place: 3, reason: why as never }),
    job("held", "held", { place: null }),
  ];
  answers({ "/pools": { pools: [named("p5", 4), named("p4", 2)] }, "/jobs": { jobs, more: false } });
  render(<Queue />);
  const rows = async (name: string) =>
    within(await screen.findByRole("table", { name: `The line of ${name}` }))
      .getAllByRole("row")
      .slice(1)
      .map((row) => [...row.children].slice(0, 2).map((cell) => cell.textContent));
  expect(await rows("p5")).toEqual([["1st", "only-p5"], ["2nd", "both"], ["3rd", "last"], ["", "held"]]);
  expect(await rows("p4")).toEqual([["1st", "only-p4"], ["2nd", "also-p4"], ["3rd", "both"]]);
  expect(screen.getByText(why.text), "the whole reason").toBeTruthy();
});

test("the queue in short, and the progress as a bar", async () => {
  const progress = { step: 30, of: 100, at: MOMENT, eta_seconds: 3_900, metrics: {}, saved: null };
  const jobs = [job("a", "running", { pool: "p5", progress }), job("b", "pending", { place: 1 })];
  const projects = [project("vision", status(1, 3), status(8, 24, "gpus")), project("speech", status(4, 3))];
  answers({ "/pools": { pools: [named("p5", 1), named("p4", 2)] }, "/jobs": { jobs, more: true }, "/projects": { projects } });
  render(<Queue />);
  const short = await screen.findByLabelText("In short");
  await within(short).findByText("speech: 4 of 3");
  expect([...short.querySelectorAll(":scope > div:not(.shares)")].map((tile) => tile.textContent)).toEqual(["run1", "wait1 and more", "free of 8 slots5"]);
  expect([...short.querySelectorAll("li span")].map((share) => share.textContent)).toEqual(["speech: 4 of 3", "vision: 1 of 3"]);
  const cell = screen.getByText("30 %, 1h05 left");
  expect(cell.querySelector("svg .done")!.getAttribute("width")).toBe("30");
});

test("who may not see the projects sees the rest", async () => {
  answers({ "/pools": { pools: [named("p5", 1)] }, "/jobs": { jobs: [], more: false } });
  render(<Queue />);
  expect((await screen.findByLabelText("In short")).textContent).toBe("run0wait0free of 4 slots3");
  expect(screen.getByRole("status", { hidden: true }).hidden).toBe(true);
});

test("a project's slots are those of all pools, and no other resource's", () =>
  expect(inSlots(project("vision", status(1, 2), status(3, 4), status(8, 8, "gpus")))).toEqual({ name: "vision", held: 4, share: 6 }));
