import { fireEvent } from "@testing-library/preact";
import { afterEach, expect, test, vi } from "vitest";
import { call } from "../src/api";
import { released } from "../src/press";

afterEach(() => {
  fireEvent(document, new MouseEvent("pointercancel"));
  vi.unstubAllGlobals();
});

const pointer = (type: string, init: MouseEventInit = {}) => fireEvent(document.body, new MouseEvent(type, { bubbles: true, ...init }));
const turns = () => new Promise((done) => setTimeout(done));

/** What has come so far. */
function watched(promise: Promise<unknown>): string[] {
  const seen: string[] = [];
  promise.then(
    () => seen.push("answer"),
    () => seen.push("refusal"),
  );
  return seen;
}

test("an answer waits for the release, and comes after the click", async () => {
  vi.stubGlobal("fetch", async () => new Response("{}"));
  pointer("pointerdown");
  const seen = watched(call("GET", "/pools"));
  await turns();
  expect(seen).toEqual([]);
  addEventListener("click", () => seen.push("click"), { once: true });
  pointer("pointerup");
  pointer("click");
  await turns();
  await turns();
  expect(seen).toEqual(["click", "answer"]);
});

test("a refusal waits as well", async () => {
  vi.stubGlobal("fetch", async () => new Response("{}", { status: 500 }));
  pointer("pointerdown");
  const seen = watched(call("GET", "/pools"));
  await turns();
  expect(seen).toEqual([]);
  pointer("pointerup");
  await turns();
  await turns();
  expect(seen).toEqual(["refusal"]);
});

test("what is called off while the pointer is pressed does not come", async () => {
  vi.stubGlobal("fetch", async () => new Response("{}"));
  const stop = new AbortController();
  pointer("pointerdown");
  const seen = watched(call("GET", "/pools", { signal: stop.signal }));
  await turns();
  stop.abort();
  pointer("pointerup");
  await turns();
  await turns();
  expect(seen).toEqual(["refusal"]);
});

test.each([
  ["a drag", () => pointer("pointercancel")],
  ["a release elsewhere", () => pointer("pointermove", { buttons: 0 })],
  ["another window", () => fireEvent(window, new FocusEvent("blur"))],
])("%s ends a press", async (_, ends) => {
  pointer("pointerdown");
  const seen = watched(released());
  await turns();
  expect(seen).toEqual([]);
  ends();
  await turns();
  expect(seen).toEqual(["answer"]);
});

test("the second press of two that follow each other at once is one as well", async () => {
  pointer("pointerdown");
  pointer("pointerup");
  pointer("pointerdown");
  const seen = watched(released());
  await turns();
  expect(seen).toEqual([]);
});

test("a menu's button holds nothing up", async () => {
  pointer("pointerdown", { button: 2 });
  await released();
});
