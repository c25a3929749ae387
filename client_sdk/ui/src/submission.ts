// A CreateTrainingJob request from the fields of a form. An empty field is left out: the project may fill it in.

export interface Fields {
  name: string;
  image: string;
  command: string;
  role: string;
  output: string;
  instanceType: string;
  instanceCount: string;
  /** GPUs of a node; empty: whole instances. */
  gpus: string;
  hours: string;
  checkpoints: string;
  priority: string;
  project: string;
}

export const EMPTY: Fields = {
  name: "",
  image: "",
  command: "",
  role: "",
  output: "",
  instanceType: "",
  instanceCount: "1",
  gpus: "",
  hours: "24",
  checkpoints: "",
  priority: "",
  project: "",
};

const VOLUME_IN_GB = 30;

export function requestOf(fields: Fields): Record<string, unknown> {
  const said = Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, value.trim()])) as unknown as Fields;
  const tags = [
    ["slotq:priority", said.priority],
    ["slotq:project", said.project],
    ["slotq:gpus", said.gpus],
  ]
    .filter(([, value]) => value)
    .map(([Key, Value]) => ({ Key, Value }));
  return {
    TrainingJobName: said.name,
    ...(said.role && { RoleArn: said.role }),
    AlgorithmSpecification: {
      TrainingImage: said.image,
      TrainingInputMode: "File",
      ...(said.command && { ContainerEntrypoint: ["sh", "-c", said.command] }),
    },
    ...(said.output && { OutputDataConfig: { S3OutputPath: said.output } }),
    ResourceConfig: {
      InstanceType: said.instanceType,
      InstanceCount: Number(said.instanceCount),
      VolumeSizeInGB: VOLUME_IN_GB,
    },
    StoppingCondition: { MaxRuntimeInSeconds: Math.round(Number(said.hours) * 3600) },
    ...(said.checkpoints && { CheckpointConfig: { S3Uri: said.checkpoints } }),
    ...(tags.length && { Tags: tags }),
  };
}

/** What was pasted. Throws an Error whose message says what is wrong. */
export function pasted(text: string): Record<string, unknown> {
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch (error) {
    throw new Error(`This is no JSON: ${(error as Error).message}.`);
  }
  if (typeof found !== "object" || found === null || Array.isArray(found))
    throw new Error("This must be one object: a CreateTrainingJob request.");
  return found as Record<string, unknown>;
}
