// The frame around each view: its title, the links to the others, and the caller.

import { useEffect, useRef, useState } from "preact/hooks";
import { Link, Route, Switch, useLocation } from "wouter-preact";
import { useCommand } from "./address";
import { get } from "./api";
import { useLive } from "./live";
import { released } from "./press";
import { maySubmit } from "./rights";
import { Jobs } from "./views/jobs";
import { GroupPage } from "./views/group";
import { Groups } from "./views/groups";
import { JobPage } from "./views/job";
import { People } from "./views/people";
import { Projects } from "./views/projects";
import { Queue } from "./views/queue";
import { Settings } from "./views/settings";
import { Timeline } from "./views/timeline";
import { Submit } from "./views/submit";
import { WhatIf } from "./views/what_if";

const PLACES = [
  ["/", "Queue"],
  ["/jobs", "Jobs"],
  ["/groups", "Groups"],
  ["/submit", "Submit"],
  ["/what-if", "What if"],
  ["/projects", "Projects"],
  ["/timeline", "Timeline"],
  ["/people", "People"],
  ["/settings", "Settings"],
] as const;

/** What an address shows: the name of a job or group, else that of the view; undefined: nothing. */
export function viewOf(path: string): string | undefined {
  const [, view = "", name, ...rest] = path.split("/");
  const found = PLACES.find(([place]) => place === `/${view}`)?.[1];
  if (!name) return found;
  return rest.length === 0 && (view === "jobs" || view === "groups") ? decoded(name) : undefined;
}

/** An address may be cut off, or never have been one of ours. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Set the view's title, and move the focus to a newly opened view. */
function useView(path: string) {
  const main = useRef<HTMLElement>(null);
  const before = useRef(path);
  useEffect(() => {
    document.title = `${viewOf(path) ?? "No such view"} · SlotQ`;
    if (before.current !== path) main.current?.focus({ preventScroll: true });
    before.current = path;
  }, [path]);
  return main;
}

export function App() {
  const [path] = useLocation();
  const main = useView(path);
  const { value: me } = useLive("me", (signal) => get("/me", {}, signal), 300);
  return (
    <>
      <a class="skip" href="#main">
        Skip to the view
      </a>
      <header>
        <strong class="brand">SlotQ</strong>
        <nav aria-label="Views">
          {PLACES.filter(([place]) => place !== "/submit" || maySubmit(me)).map(([place, name]) => (
            <Link key={place} href={place} aria-current={isHere(path, place) ? "page" : undefined}>
              {name}
            </Link>
          ))}
        </nav>
        <CopyLink />
        {me && (
          <span class="me" title={`${me.caller}\n${me.why}`}>
            {me.person.split("/").at(-1)}
          </span>
        )}
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        <Switch>
          <Route path="/" component={Queue} />
          <Route path="/jobs" component={Jobs} />
          <Route path="/jobs/:name">{({ name }) => <JobPage key={name} name={name} me={me} />}</Route>
          <Route path="/groups" component={Groups} />
          <Route path="/groups/:name">{({ name }) => <GroupPage key={name} name={name} me={me} />}</Route>
          <Route path="/submit" component={Submit} />
          <Route path="/what-if">
            <WhatIf me={me} />
          </Route>
          <Route path="/projects" component={Projects} />
          <Route path="/timeline" component={Timeline} />
          <Route path="/people" component={People} />
          <Route path="/settings" component={Settings} />
          <Route>
            <Unknown path={path} />
          </Route>
        </Switch>
      </main>
    </>
  );
}

const isHere = (path: string, place: string): boolean =>
  path === place || (place !== "/" && path.startsWith(`${place}/`));

function Unknown({ path }: { path: string }) {
  return (
    <>
      <h1>No such view</h1>
      <p class="message">Nothing is at {path}. The views are above.</p>
      <p>
        <Link href="/">To the queue</Link>
      </p>
    </>
  );
}

function CopyLink() {
  const command = useCommand();
  const [copied, setCopied] = useState("");
  return (
    <button
      type="button"
      class="quiet"
      title={`Copies the command for a colleague: ${command}`}
      onClick={async () => {
        await navigator.clipboard.writeText(command);
        await released();
        setCopied(command);
      }}
    >
      <span aria-live="polite">{copied === command ? "Copied" : "Copy link"}</span>
    </button>
  );
}
