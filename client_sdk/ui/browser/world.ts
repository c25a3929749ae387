// A world for a test: a Python program of tests/browser that serves the page, and a browser before it.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";

/** How long (ms) to wait for what must come: far above what any machine needs. */
export const PATIENCE = 100_000;
export const WIDE = { width: 1280, height: 900 };

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));

export interface World<Facts> {
  facts: Facts;
  browser: Browser;
  end: () => Promise<void>;
}

export async function world<Facts>(module: string): Promise<World<Facts>> {
  const served = spawn(process.env.PYTHON ?? "python3", ["-m", `tests.browser.${module}`], {
    cwd: ROOT,
    stdio: ["pipe", "pipe", "inherit"],
  });
  const over = new Promise<void>((done) => served.once("close", () => done()));
  const line = await new Promise<string>((found, failed) => {
    createInterface(served.stdout).once("line", found);
    void over.then(() => failed(new Error(`tests.browser.${module} has ended`)));
  });
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--no-first-run"],
  });
  const end = async () => {
    await browser.close();
    served.stdin.end();
    await over;
  };
  return { facts: JSON.parse(line) as Facts, browser, end };
}

/** A page in a context of its own. */
export async function newPage(browser: Browser, options: BrowserContextOptions = {}): Promise<Page> {
  const page = await (await browser.newContext({ viewport: WIDE, ...options })).newPage();
  page.setDefaultTimeout(PATIENCE);
  return page;
}

/** Errors of the page: breaches of its Content-Security-Policy, exceptions, failed loads. */
export function complaints(page: Page): string[] {
  const found: string[] = [];
  page.on("console", (message) => message.type() === "error" && found.push(message.text()));
  page.on("pageerror", (error) => found.push(String(error)));
  return found;
}
