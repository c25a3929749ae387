// How much the page works. Counted, because a time depends on what else the machine does; times are printed only.

import type { CDPSession, Page } from "playwright-core";

const DRAWN = `new Promise((done) => requestAnimationFrame(() => {
  const channel = new MessageChannel();
  channel.port1.onmessage = () => done();
  channel.port2.postMessage(0);
}))`;

/** Resolves once the browser has drawn what has changed. */
export const drawn = (page: Page): Promise<void> => page.evaluate(DRAWN);

interface Interaction {
  /** A function of the page's, as text, that begins the interaction. */
  does: string;
  /** The same, that leads to where the interaction begins. */
  before?: string;
  /** A selector of what must be there by then. */
  ready?: string;
}

/** How often the page's program enters a function or a block, from the interaction until it is drawn. */
export async function work(page: Page, what: string, { does, before = "() => {}", ready = "main" }: Interaction): Promise<number> {
  const begin = async () => {
    await page.evaluate(`(${before})()`);
    await page.waitForSelector(ready, { state: "attached" });
    await drawn(page);
  };
  await begin();
  const time = await page.evaluate<number>(`(async () => {
    const began = performance.now();
    (${does})(0);
    await ${DRAWN};
    return performance.now() - began;
  })()`);
  await begin();
  const blocks = await counted(page, async () => {
    await page.evaluate(`(${does})(1)`);
    await drawn(page);
  });
  console.info(`${what}: ${blocks.toLocaleString("en")} blocks, ${time.toFixed(0)} ms`);
  return blocks;
}

/** How often the page's program enters a function or a block meanwhile. */
export async function counted(page: Page, meanwhile: () => Promise<unknown>): Promise<number> {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Profiler.enable");
  await devtools.send("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
  try {
    await entered(devtools);
    await meanwhile();
    return await entered(devtools);
  } finally {
    await devtools.send("Profiler.stopPreciseCoverage");
    await devtools.detach();
  }
}

/** Since it was last asked. */
async function entered(devtools: CDPSession): Promise<number> {
  const { result } = await devtools.send("Profiler.takePreciseCoverage");
  const ranges = result.filter(({ url }) => url.includes("/assets/")).flatMap(({ functions }) => functions.flatMap((entry) => entry.ranges));
  return ranges.reduce((sum, { count }) => sum + count, 0);
}
