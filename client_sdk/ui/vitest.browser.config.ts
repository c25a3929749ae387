import { defineConfig } from "vitest/config";

// A browser, an emulator and its jobs: one at a time, and slower than a unit test.
export default defineConfig({
  test: {
    environment: "node",
    include: ["browser/**/*.test.ts"],
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
