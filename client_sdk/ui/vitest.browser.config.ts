import { defineConfig } from "vitest/config";

// A browser, an emulator and its jobs: one at a time, and slower than a unit test.
export default defineConfig({
  test: {
    environment: "node",
    include: [process.env.PICTURES ? "browser/pictures.ts" : "browser/**/*.test.ts"],
    fileParallelism: false,
    testTimeout: 600_000,
    hookTimeout: 600_000,
  },
});
