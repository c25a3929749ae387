import { expect, test } from "vitest";
import { changeOf, said, wantedOf, withWanted } from "../src/wanted";

const ADDRESS = "pool=p5%3D4&more=p5%3D2%3A1w&set=pools.p5.min_runtime%3D5m&quota=vision%3D%7Bp5%3A+2%7D&priority=whisper%3D9&hold=resnet&add=p5%3D2%2C7&hours=24";

test("the address has the options of slotq whatif", () => {
  const wanted = wantedOf(new URLSearchParams(ADDRESS));
  expect(changeOf(wanted, 24)).toEqual({
    pools: { p5: 4 },
    more: { p5: "2:1w" },
    settings: { "pools.p5.min_runtime": "5m" },
    quotas: { vision: "{p5: 2}" },
    priorities: { whisper: "9" },
    moves: {},
    holds: ["resnet"],
    releases: [],
    cancels: [],
    adds: [{ name: "new-job-1", pool: "p5", slots: 2, priority: "7" }],
    hours: 24,
  });
  expect(wanted.map(said)).toEqual([
    "Pool p5 has 4 slots",
    "Pool p5 has 2 more slots for 1w",
    "pools.p5.min_runtime is 5m",
    "Project vision has a quota of {p5: 2}",
    "whisper has priority 9",
    "resnet is held",
    "A new job asks for 2 slots of p5, priority 7",
  ]);
});

test("there and back", () => {
  const query = new URLSearchParams(ADDRESS);
  expect(wantedOf(withWanted(query, wantedOf(query)))).toEqual(wantedOf(query));
  expect(withWanted(query, []).toString()).toBe("hours=24");
});

test.each(["", "-1", "4.5", "1e9", "many"])("%s is no number of slots", (text) =>
  expect(() => changeOf([{ option: "pool", name: "p5", value: text }], 8)).toThrow("Give pool p5 a whole number of slots."),
);
