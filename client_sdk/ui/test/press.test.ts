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

/** A finger's press and release; the browser sends the click of a tap some time later. */
const finger = (type: string) => {
  const event = new MouseEvent(type, { bubbles: true });
  Object.defineProperty(event, "pointerType", { value: "touch" });
  fireEvent(document.body, event);
};

test("a tap's click comes after its release, and before the answer", async () => {
  finger("pointerdown");
  const seen = watched(released());
  finger("pointerup");
  await turns();
  await turns();
  expect(seen).toEqual([]);
  pointer("click");
  await turns();
  await turns();
  expect(seen).toEqual(["answer"]);
});

test("a finger whose release is no tap ends its press as well", async () => {
  vi.useFakeTimers();
  finger("pointerdown");
  const seen = watched(released());
  finger("pointerup");
  await vi.runAllTimersAsync();
  vi.useRealTimers();
  expect(seen).toEqual(["answer"]);
});

test.each(["button", "summary"])("a %s that the space bar holds is pressed until it is let go", async (name) => {
  const pressed = document.body.appendChild(document.createElement(name));
  fireEvent.keyDown(pressed, { key: " " });
  const seen = watched(released());
  await turns();
  expect(seen).toEqual([]);
  addEventListener("click", () => seen.push("click"), { once: true });
  fireEvent.keyUp(pressed, { key: " " });
  fireEvent.click(pressed);
  await turns();
  await turns();
  pressed.remove();
  expect(seen).toEqual(["click", "answer"]);
});

test.each([
  ["a space in a text", "input", " "],
  ["Enter", "button", "Enter"],
])("%s holds nothing up", async (_, name, key) => {
  const field = document.body.appendChild(document.createElement(name));
  fireEvent.keyDown(field, { key });
  await released();
  field.remove();
});

test("a menu's button holds nothing up", async () => {
  pointer("pointerdown", { button: 2 });
  await released();
});
