import { expect, test } from "vitest";
import { EMPTY, pasted, requestOf } from "../src/submission";

const fields = { ...EMPTY, name: " a ", image: "train:1", instanceType: "ml.m5.large" };

test("what is empty is left to the queue", () =>
  expect(requestOf(fields)).toEqual({
    TrainingJobName: "a",
    AlgorithmSpecification: { TrainingImage: "train:1", TrainingInputMode: "File" },
    ResourceConfig: { InstanceType: "ml.m5.large", InstanceCount: 1, VolumeSizeInGB: 30 },
    StoppingCondition: { MaxRuntimeInSeconds: 86_400 },
  }));

test("settings become tags", () =>
  expect(requestOf({ ...fields, priority: "7", project: "vision" })).toMatchObject({
    Tags: [
      { Key: "slotq:priority", Value: "7" },
      { Key: "slotq:project", Value: "vision" },
    ],
  }));

test("GPUs are a tag too", () =>
  expect(requestOf({ ...fields, gpus: "2" })).toMatchObject({ Tags: [{ Key: "slotq:gpus", Value: "2" }] }));

test("a command is run by a shell", () =>
  expect(requestOf({ ...fields, command: "exec python train.py" })).toMatchObject({
    AlgorithmSpecification: { ContainerEntrypoint: ["sh", "-c", "exec python train.py"] },
  }));

test.each([["{", /no JSON/], ["[]", /one object/], ["null", /one object/]])("%s is refused", (text, message) =>
  expect(() => pasted(text)).toThrow(message),
);
