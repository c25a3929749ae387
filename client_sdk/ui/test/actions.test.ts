import { expect, test } from "vitest";
import type { Job } from "../src/api";
import { deeds } from "../src/views/actions";

const job = (state: string): Job => ({ state, priority: 0, pools: ["p5", "p4"], attempts_begun: 2 }) as Job;
const names = (state: string) => deeds(job(state)).map((deed) => deed.name);

test.each([
  ["pending", ["Hold", "Priority", "Move", "Cancel"]],
  ["held", ["Release", "Priority", "Move", "Cancel"]],
  ["running", ["Priority", "Requeue", "Cancel"]],
  ["stopping", ["Priority", "Cancel"]],
  ["completed", []],
])("what is offered for a job that is %s", (state, offered) => expect(names(state)).toEqual(offered));

test("a repeated requeue gives up one attempt", () =>
  expect(deeds(job("running"))[1]!.body!("")).toEqual({ give_up: 2 }));

test("pools are sent as the tag has them", () =>
  expect(deeds(job("pending"))[2]!.body!("p4, p5")).toEqual({ tags: { "slotq:pools": "p4,p5" } }));
