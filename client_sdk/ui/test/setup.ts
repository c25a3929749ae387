import { configure } from "@testing-library/preact";

/** Far above what any machine needs (ms): a patience turns a hang into a failure, and nothing else. */
export const PATIENCE = 60_000;
configure({ asyncUtilTimeout: PATIENCE });
