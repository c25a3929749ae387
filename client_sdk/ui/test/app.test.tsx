import { cleanup, render, screen } from "@testing-library/preact";
import { afterEach, expect, test, vi } from "vitest";
import { App } from "../src/app";

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

// What stands in the address bar may be cut off, or never have been an address of ours.
test.each(["/jobs/50%", "/groups/%zz", "/jobs/%E0%A4%A", "/jobs/a%2525"])("an address that is no name is shown as it is: %s", async (path) => {
  vi.stubGlobal("fetch", async () => new Response("null", { status: 404 }));
  history.replaceState(null, "", path);
  render(<App />);
  expect(screen.getByRole("navigation")).toBeTruthy();
  expect(screen.getByRole("heading", { level: 1 }).textContent).toContain("%");
});
