// Submit a job: from a form, or by pasting a CreateTrainingJob request.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { useFilter } from "../address";
import { call, get, ofJob, type Job, type Refusal } from "../api";
import { useLive } from "../live";
import { EMPTY, pasted, requestOf, type Fields } from "../submission";

export function Submit() {
  const [way, setWay] = useFilter("way");
  return (
    <>
      <h1>Submit a job</h1>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          From
          <select value={way} onChange={(event) => setWay(event.currentTarget.value)}>
            <option value="">a form</option>
            <option value="request">a pasted request</option>
          </select>
        </label>
      </form>
      {way === "request" ? <Paste /> : <Form />}
    </>
  );
}

function Form() {
  const [fields, setFields] = useState(EMPTY);
  const pools = useLive("pools", (signal) => get("/pools", {}, signal), 60);
  const types = [...new Set(pools.value?.pools.map((pool) => pool.instance_type) ?? [])];
  const chosen = fields.instanceType || types[0] || "";
  const keepsNodes = pools.value?.pools.some((pool) => pool.instance_type === chosen && pool.settings.nodes) ?? false;
  const field = (name: keyof Fields, label: string, hint = "", rest: Record<string, unknown> = {}) => (
    <div>
      <label>
        {label}
        <input
          value={fields[name]}
          onInput={({ currentTarget: { value } }) => setFields((old) => ({ ...old, [name]: value }))}
          aria-describedby={hint ? `about-${name}` : undefined}
          {...rest}
        />
      </label>
      {hint && <small id={`about-${name}`}>{hint}</small>}
    </div>
  );
  return (
    <Sending request={() => requestOf({ ...fields, instanceType: chosen, gpus: keepsNodes ? fields.gpus : "" })}>
      <div class="fields">
        {field("name", "Name", "Letters, digits and hyphens", { required: true, maxLength: 63 })}
        {field("image", "Image", "The training image's address", { required: true })}
        {field("command", "Command", "Empty: what the image runs. Begin with exec, so that your program hears when it is stopped.")}
        <label>
          Instance type
          <select
            value={chosen}
            onChange={({ currentTarget: { value } }) => setFields((old) => ({ ...old, instanceType: value }))}
          >
            {types.map((type) => (
              <option key={type}>{type}</option>
            ))}
          </select>
        </label>
        {field("instanceCount", "Instances", "", { required: true, type: "number", min: 1 })}
        {keepsNodes &&
          field("gpus", "GPUs", "Of an instance that the pool keeps, with a command: 2, or 0.25 for a part of one. Empty: whole instances.", {
            type: "number",
            min: 0.05,
            max: 64,
            step: 0.01,
          })}
        {field("hours", "Hours at most", "Of one attempt", { required: true, type: "number", min: 0.1, step: 0.1 })}
        {field("role", "Role", "ARN of the execution role. Empty: your project's.")}
        {field("output", "Output", "s3://… for the model. Empty: your project's.")}
        {field("checkpoints", "Checkpoints", "s3://… Without it, an evicted job starts over.")}
        {field("priority", "Priority", "A number or a class. Empty: the queue's default.")}
        {field("project", "Project", "Empty: your default.")}
      </div>
    </Sending>
  );
}

function Paste() {
  const [text, setText] = useState("");
  return (
    <Sending request={() => pasted(text)}>
      <label>
        CreateTrainingJob request, as JSON
        <textarea
          rows={18}
          spellcheck={false}
          required
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
    </Sending>
  );
}

/** The form around the fields. Leads to the job once the queue has taken it. */
function Sending({ request, children }: { request: () => unknown; children: ComponentChildren }) {
  const [, go] = useLocation();
  const [trouble, setTrouble] = useState("");
  const [busy, setBusy] = useState(false);
  const send = async () => {
    setBusy(true);
    try {
      const job = await call<Job>("POST", "/add-job", { body: request() });
      go(ofJob(job.name));
    } catch (error) {
      const { field, message } = error as Refusal;
      setTrouble(field && !message.includes(field) ? `${field}: ${message}` : message);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      {children}
      <p class="trouble" role="alert" hidden={!trouble}>
        {trouble}
      </p>
      <div class="actions">
        <button type="submit" disabled={busy}>
          Submit
        </button>
      </div>
    </form>
  );
}
