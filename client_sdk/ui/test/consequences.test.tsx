import { render, screen } from "@testing-library/preact";
import { afterEach, expect, test, vi } from "vitest";
import { Consequences } from "../src/views/consequences";

afterEach(() => vi.unstubAllGlobals());

const answers = (status: number, body: unknown) => {
  const fetched = vi.fn(async () => new Response(JSON.stringify(body), { status }));
  vi.stubGlobal("fetch", fetched);
  return fetched;
};

test("a confirmation lists who is evicted, as text", async () => {
  const name = "<img src=x onerror=alert(1)>";
  const fetched = answers(200, {
    at: "2026-11-20T12:00:00.000Z",
    withheld: 2,
    now: [{ job: name, before: { what: "runs", pool: "p5" }, after: { what: "evicted", pool: "p5" } }],
    timeline: [],
  });
  render(<Consequences change={{ priorities: { urgent: "9" } }} />);
  expect(await screen.findByText(`${name} is evicted.`)).toBeTruthy();
  expect(screen.getByText("Partial: 2 jobs of others are not named.")).toBeTruthy();
  expect(document.querySelector("img")).toBeNull();
  const [address, sent] = fetched.mock.calls[0] as unknown as [string, RequestInit];
  expect(address).toBe("/own/whatif");
  expect(sent.body).toBe('{"priorities":{"urgent":"9"}}');
});

test("a refusal does not keep anybody from acting", async () => {
  answers(403, { code: "not_permitted", message: "you may not look" });
  render(<Consequences change={{ cancels: ["a"] }} />);
  expect(await screen.findByText("What would happen is not known: you may not look")).toBeTruthy();
});
