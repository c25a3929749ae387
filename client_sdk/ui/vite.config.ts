import { defineConfig } from "vitest/config";

// Everything is a file of its own, for the page's Content-Security-Policy forbids inline script,
// inline style and foreign sources.
export default defineConfig({
  base: "/",
  build: {
    outDir: "../src/slotq/ui/built",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  // `npm run dev` beside `slotq ui --port 4778 --no-browser`: its link's token works here too.
  server: { proxy: { "/api": { target: "http://127.0.0.1:4778", changeOrigin: true, headers: { origin: "" } } } },
  test: { environment: "jsdom", include: ["test/**/*.test.{ts,tsx}"], setupFiles: "test/setup.ts", testTimeout: 120_000 },
});
