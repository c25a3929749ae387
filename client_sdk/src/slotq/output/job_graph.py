"""Which jobs come after which: the chains of jobs, and the tree that shows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from slotq.output.job_tables import state_text, why
from slotq.output.plain_table import LIVING
from slotq_core.wire.views import JobView


class JobGraph:
    """Jobs, and those that come after each."""

    def __init__(self, jobs: Iterable[JobView]) -> None:
        self._jobs = {job.name: job for job in jobs}
        self.followers: dict[str, list[str]] = defaultdict(list)
        for job in sorted(self._jobs.values(), key=_order):
            for name in job.after:
                self.followers[name].append(job.name)

    def chains(self, *, ended: bool) -> list[JobView]:
        """The jobs that come after others or that others come after, those first that others come
        after. Without `ended`: only where some connected job has not ended."""
        linked = [job for job in self._jobs.values() if job.after or self.followers.get(job.name)]
        if ended:
            return self._ordered(job.name for job in linked)
        return self.connected_with(job.name for job in linked if job.state in LIVING)

    def connected_with(self, names: Iterable[str]) -> list[JobView]:
        """These jobs, and all that a chain connects with one of them."""
        found = dict.fromkeys(names)
        queue = list(found)
        for name in queue:
            job = self._jobs.get(name)
            near = [*(job.after if job else ()), *self.followers.get(name, ())]
            queue += [each for each in near if each not in found]
            found.update(dict.fromkeys(near))
        return self._ordered(found)

    def _ordered(self, names: Iterable[str]) -> list[JobView]:
        return sorted((self._jobs[name] for name in names if name in self._jobs), key=_order)


def graph_tree(jobs: Sequence[JobView]) -> RenderableType:
    """The jobs as trees: below each job those that come after it. A job that comes after several
    shows its own followers only once."""
    if not jobs:
        return Text("no job comes after another")
    graph, shown = JobGraph(jobs), set[str]()
    known = {job.name: job for job in jobs}
    roots = [job for job in jobs if not any(name in known for name in job.after)]
    trees = []
    for root in roots:
        tree = Tree(_label(root, ""))
        trees.append(tree)
        _grow(tree, root.name, graph, known, shown)
    return Group(*trees)


def _grow(
    tree: Tree, name: str, graph: JobGraph, known: dict[str, JobView], shown: set[str]
) -> None:
    """Add what comes after a job. Works without recursion: chains may be long."""
    todo = [(tree, name)]
    while todo:
        branch, parent = todo.pop()
        shown.add(parent)
        for follower in graph.followers.get(parent, ()):
            label = _label(known[follower], parent)
            if follower in shown and graph.followers.get(follower):
                label.append(" (its followers: see above)", style="dim")
            grown = branch.add(label)
            if follower not in shown:
                shown.add(follower)
                todo.append((grown, follower))


def _label(job: JobView, parent: str) -> Text:
    """A job's line: name, state, what else it comes after, and why it waits or ended."""
    line = Text(f"{job.name}  ").append_text(state_text(job.state))
    if others := [name for name in job.after if name != parent]:
        line.append(
            f"  after {', '.join(others)}" if not parent else f"  also after {', '.join(others)}"
        )
    if text := why(job):
        line.append(f"  {text}", style="dim")
    return line


def _order(job: JobView) -> tuple[str, str]:
    return job.entry_time, job.name
