// How long the page takes to draw.

import type { Page } from "playwright-core";

/** The longest time (ms) that an interaction may take. */
export const LONGEST = 100;
const TRIES = 5;

/** The time (ms) from an event in the page until the browser has drawn what follows. The least of
 * some tries, each after `before`: what else runs on the machine is no part of the page. */
export async function least(page: Page, what: string, interaction: string, before = "() => {}"): Promise<number> {
  const times: number[] = [];
  for (let n = 0; n < TRIES; n++) {
    await page.evaluate(`(${before})()`);
    await page.waitForTimeout(300);
    times.push(
      await page.evaluate<number>(`(async () => {
        const drawn = () => new Promise((done) => requestAnimationFrame(() => {
          const channel = new MessageChannel();
          channel.port1.onmessage = done;
          channel.port2.postMessage(0);
        }));
        await drawn();
        const began = performance.now();
        (${interaction})(${n});
        await drawn();
        return performance.now() - began;
      })()`),
    );
  }
  console.info(`${what}: ${Math.min(...times).toFixed(0)} ms`);
  return Math.min(...times);
}
