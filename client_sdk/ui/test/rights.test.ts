import { expect, test, vi } from "vitest";
import { call, isDenied, type Job, type Me } from "../src/api";
import { mayChange, mayOperate, maySubmit } from "../src/rights";
import { permitted } from "../src/views/actions";

const me = (role?: string, operates = true): Me =>
  ({
    shared: role !== undefined,
    operates,
    caller: "arn:aws:sts::1:assumed-role/team/ada",
    person: "arn:aws:iam::1:role/team/ada",
    projects: role ? [{ name: "vision", role, default: true }] : [],
  }) as unknown as Me;
const job = (user: string, project = "vision"): Job =>
  ({ name: "j", state: "pending", priority: 0, pools: ["p5"], attempts_begun: 0, user, submitter: user, project }) as unknown as Job;
const OWN = "arn:aws:iam::1:role/team/ada";

test.each([
  ["an admin changes anybody's job", me("admin"), job("bob"), true],
  ["an operator too", me("operator"), job("bob"), true],
  ["a member changes their own", me("member"), job(OWN), true],
  ["and no other's", me("member"), job("bob"), false],
  ["a viewer changes not even their own", me("viewer"), job(OWN), false],
  ["who has no role in the project changes nothing there", me("admin"), job(OWN, "speech"), false],
  ["without projects IAM alone decides", me(), job("bob", ""), true],
  ["also on a job of a project that is gone", me(), job("bob"), true],
  ["nothing is withheld before the caller is known", undefined, job("bob"), true],
])("%s", (_, caller, of, may) => {
  expect(mayChange(caller, of)).toBe(may);
  expect(permitted(of, caller).length > 0).toBe(may);
});

test("viewers submit nowhere; operators change pools", () => {
  expect([maySubmit(me("viewer")), maySubmit(me("member")), maySubmit(me())]).toEqual([false, true, true]);
  expect([mayOperate(me("admin", false)), mayOperate(me("operator")), mayOperate(me()), mayOperate(undefined)]).toEqual([
    false, true, true, true,
  ]);
});

test("what IAM has refused once is not offered again, on any job", async () => {
  const answer = { Message: "User is not authorized to perform: execute-api:Invoke" };
  vi.stubGlobal("fetch", async () => new Response(JSON.stringify(answer), { status: 403 }));
  await expect(call("DELETE", "/jobs/a")).rejects.toThrow();
  expect(isDenied("DELETE", "/jobs/b")).toBe(true);
  expect(permitted(job(OWN), me("admin")).map((deed) => deed.name)).toEqual(["Hold", "Priority", "Move"]);
  vi.stubGlobal("fetch", async () => new Response('{"code": "not_permitted", "message": "no"}', { status: 403 }));
  await expect(call("PATCH", "/jobs/a")).rejects.toThrow("no");
  expect(isDenied("PATCH", "/jobs/b"), "the queue's own refusal is of this job alone").toBe(false);
  vi.unstubAllGlobals();
});
