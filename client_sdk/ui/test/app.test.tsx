import { cleanup, fireEvent, render, screen } from "@testing-library/preact";
import { PATIENCE } from "./setup";
import { afterEach, expect, test, vi } from "vitest";
import { App, viewOf } from "../src/app";

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

// An address may be cut off, or never have been one of ours.
test.each(["/jobs/50%", "/groups/%zz", "/jobs/%E0%A4%A", "/jobs/a%2525"])("an address that is no name is shown as it is: %s", async (path) => {
  vi.stubGlobal("fetch", async () => new Response("null", { status: 404 }));
  history.replaceState(null, "", path);
  render(<App />);
  expect(screen.getByRole("navigation")).toBeTruthy();
  expect(screen.getByRole("heading", { level: 1 }).textContent).toContain("%");
});

test.each([
  ["/", "Queue"],
  ["/what-if", "What if"],
  ["/jobs/clip-train", "clip-train"],
  ["/groups/lr%20grid", "lr grid"],
  ["/jobs/50%", "50%"],
  ["/nowhere", undefined],
  ["/jobs/a/b", undefined],
  ["/queue/a", undefined],
])("%s shows %s", (path, view) => expect(viewOf(path)).toBe(view));

test("each view has a title, and is where the keyboard is once it is opened", async () => {
  vi.stubGlobal("fetch", async () => new Response("null", { status: 404 }));
  history.replaceState(null, "", "/settings");
  render(<App />);
  await vi.waitFor(() => expect(document.title).toBe("Settings · SlotQ"), PATIENCE);
  expect(document.activeElement).toBe(document.body);
  fireEvent.click(screen.getByRole("link", { name: "People" }));
  await vi.waitFor(() => expect(document.title).toBe("People · SlotQ"), PATIENCE);
  expect(document.activeElement).toBe(screen.getByRole("main"));
});

test("an address that there is not says so, as text", async () => {
  vi.stubGlobal("fetch", async () => new Response("null", { status: 404 }));
  const odd = "/<img src=x onerror=alert(1)>";
  history.replaceState(null, "", encodeURI(odd));
  render(<App />);
  expect(screen.getByRole("heading", { level: 1 }).textContent).toBe("No such view");
  expect(location.pathname, "the address stays, to be mended").toBe(encodeURI(odd));
  expect(screen.getByRole("link", { name: "To the queue" }).getAttribute("href")).toBe("/");
  expect(document.querySelector("main img")).toBeNull();
  await vi.waitFor(() => expect(document.title).toBe("No such view · SlotQ"), PATIENCE);
});
