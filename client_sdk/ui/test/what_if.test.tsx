import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/preact";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { WhatIf } from "../src/views/what_if";

const WORDS = {
  head: "The queue at 2026-11-20 12:00 UTC.",
  quiet: "Now: nothing starts and nothing is evicted.",
  same: "The next 8 h: no difference.",
  now: [{ before: "waits", after: "starts in p5" }],
  timeline: [{ event: "starts", before: "in 2 h in p5", after: "now in p5" }],
  worlds: [{ project: "vision", before: "1 start, no wait", after: "2 starts, waits 5 min" }],
  costs: [{ pool: "p5", kind: "on_demand", before: "24.0 h", after: "40.0 h" }],
  prices: "",
  partial: [],
};
const ANSWER = {
  at: "2026-11-20T12:00:00.000Z",
  revision: 7,
  withheld: 0,
  diff: "-half_life: 1d\n+half_life: 7d\n",
  now: [{ job: "whisper", before: { what: "waits", pool: null }, after: { what: "starts", pool: "p5" } }],
  timeline: [{ job: "whisper", event: "start", before: null, after: null }],
  words: WORDS,
};

const sent: [string, unknown][] = [];

beforeEach(() => {
  sent.length = 0;
  history.replaceState(null, "", "/what-if");
  vi.stubGlobal("fetch", async (address: string, init?: RequestInit) => {
    if (init?.body) sent.push([address, JSON.parse(String(init.body))]);
    const body = address.startsWith("/own/whatif") ? ANSWER : { pools: [{ name: "p5" }], projects: [{ name: "vision" }] };
    return new Response(JSON.stringify(body), { status: 200 });
  });
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const asked = () => sent.at(-1)?.[1] as Record<string, unknown> | undefined;
const choose = (option: string) => fireEvent.change(screen.getByLabelText("Change"), { target: { value: option } });
const type = (label: RegExp, value: string) => fireEvent.input(screen.getByLabelText(label), { target: { value } });

test("a setting is added by its path, and both worlds are beside each other", async () => {
  render(<WhatIf me={{ operates: false } as never} />);
  choose("set");
  type(/^Setting/, "fair_share.half_life");
  type(/^Value/, "7d");
  fireEvent.click(screen.getByText("Add"));
  expect(await screen.findByText("fair_share.half_life is 7d")).toBeTruthy();
  await waitFor(() => expect(asked()).toMatchObject({ settings: { "fair_share.half_life": "7d" } }));
  expect(location.search).toBe("?set=fair_share.half_life%3D7d");
  expect((await screen.findAllByText("Without the change")).length).toBe(4);
  const vision = screen.getByText("2 starts, waits 5 min").closest("tr")!;
  expect([...vision.children].map((cell) => cell.textContent)).toEqual(["vision", "1 start, no wait", "2 starts, waits 5 min"]);
  const row = screen.getByText("in 2 h in p5").closest("tr")!;
  expect([...row.children].map((cell) => cell.textContent)).toEqual(["whisper", "starts", "in 2 h in p5", "now in p5"]);
  expect(screen.getByText(/operators: hand them the diff/)).toBeTruthy();
});

test("an empty value is the setting's default", async () => {
  render(<WhatIf me={undefined} />);
  choose("set");
  type(/^Setting/, "fair_share");
  fireEvent.click(screen.getByText("Add"));
  expect(await screen.findByText("fair_share has its default")).toBeTruthy();
  await waitFor(() => expect(asked()).toMatchObject({ settings: { fair_share: "" } }));
});

test("slots for a time are only asked", async () => {
  render(<WhatIf me={{ operates: true } as never} />);
  await screen.findByRole("option", { name: "p5" });
  choose("more");
  type(/^Slots and for how long/, "2:1w");
  fireEvent.click(screen.getByText("Add"));
  expect(await screen.findByText("Pool p5 has 2 more slots for 1w")).toBeTruthy();
  await waitFor(() => expect(asked()).toMatchObject({ more: { p5: "2:1w" } }));
  expect(await screen.findByText("Slots for a time are only asked: buy them, then change the pool.")).toBeTruthy();
  expect(screen.queryByText("Apply")).toBeNull();
});
