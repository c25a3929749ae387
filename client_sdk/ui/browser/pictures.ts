// Takes the pictures of the documentation: `make pictures`. SHOTS=FOLDER: each view instead, in light and
// dark, as on a telephone, a tablet and a laptop, to be looked at.

import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, test } from "vitest";
import { newPage, world, type World } from "./world";

const PICTURES = fileURLToPath(new URL("../../../docs/pictures", import.meta.url));
const WIDE = { width: 1180, height: 760 };
const LOOKED_AT = [
  { width: 375, height: 812 },
  { width: 768, height: 1024 },
  { width: 1280, height: 800 },
];
const VIEWS: Record<string, string> = {
  queue: "/",
  jobs: "/jobs",
  job: "/jobs/clip-train",
  evicted: "/jobs/vit-large",
  what_if: "/what-if?pool=p5%3D6",
  timeline: "/timeline",
  groups: "/groups",
  group: "/groups/lr-grid",
  submit: "/submit",
  projects: "/projects",
  people: "/people",
  settings: "/settings",
};
/** What the documentation shows. */
const SHOWN: [string, "light" | "dark"][] = [
  ["queue", "light"],
  ["what_if", "light"],
  ["job", "dark"],
];

let busy: World<{ link: string }>;
beforeAll(async () => {
  busy = await world("busy");
});
afterAll(() => busy.end());

async function shoot(view: string, path: string, colorScheme: "light" | "dark", viewport = WIDE, fullPage = false) {
  const page = await newPage(busy.browser, { colorScheme, viewport });
  await page.goto(busy.facts.link);
  await page.getByRole("heading", { name: /^p5/ }).waitFor();
  await page.goto(new URL(VIEWS[view]!, busy.facts.link).href);
  await page.getByRole("heading", { level: 1 }).waitFor({ state: "attached" });
  await page.waitForTimeout(2500); // The simulator answers, on what-if and on a job that waits.
  await page.getByText("Asking what would happen").waitFor({ state: "detached" });
  await page.screenshot({ path, fullPage });
  await page.context().close();
}

const folder = process.env.SHOTS;
test.skipIf(folder)("the pictures of the documentation", async () => {
  for (const [view, scheme] of SHOWN) await shoot(view, `${PICTURES}/ui_${view}.png`, scheme);
});
test.runIf(folder)("each view, to be looked at", async () => {
  mkdirSync(folder!, { recursive: true });
  for (const view of Object.keys(VIEWS))
    for (const scheme of ["light", "dark"] as const)
      for (const viewport of LOOKED_AT)
        await shoot(view, `${folder}/${view}-${scheme}-${viewport.width}.png`, scheme, viewport, true);
});
