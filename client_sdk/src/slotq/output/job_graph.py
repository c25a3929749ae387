"""Which jobs and groups come after which: the chains, and the tree that shows them.

A group represents its members: its dependencies are those that all members share. A member is a
node of its own only if it has further dependencies or dependents.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from slotq.output.group_tables import in_states
from slotq.output.job_tables import state_text, why
from slotq.output.json_views import GraphGroup, GraphView
from slotq.output.plain_table import LIVING
from slotq_core.model.groups import end_of
from slotq_core.model.jobs import GROUP_END
from slotq_core.wire.views.jobs import JobView


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupNode:
    """A group in the graph. `members` may lack those that have long ended."""

    name: str
    members: tuple[JobView, ...]

    @property
    def after(self) -> list[str]:
        """The dependencies that all members share."""
        common = [set(job.after) for job in self.members]
        shared = set.intersection(*common) if common else set()
        return [name for name in (self.members[0].after if common else ()) if name in shared]

    @property
    def states(self) -> Mapping[str, int]:
        return Counter(job.state for job in self.members)


Node = JobView | GroupNode


class JobGraph:
    """Jobs and groups by name (`group:NAME`), and those that come after each."""

    def __init__(self, jobs: Iterable[JobView], groups: Iterable[GroupNode] = ()) -> None:
        known = {job.name: job for job in jobs}
        self.groups = {end_of(group.name): group for group in groups}
        awaited = {name for job in known.values() for name in job.after}
        self._home: dict[str, str] = {}
        """The group that represents a job."""
        for key, group in self.groups.items():
            common = set(group.after)
            for member in group.members:
                if member.name not in awaited and set(member.after) == common:
                    self._home[member.name] = key
        self.nodes: dict[str, Node] = {
            **{name: job for name, job in known.items() if name not in self._home},
            **self.groups,
        }
        self.followers: dict[str, list[str]] = defaultdict(list)
        for key in sorted(self.nodes, key=self._place):
            for name in self.nodes[key].after:
                self.followers[name].append(key)

    def chains(self, *, ended: bool) -> list[str]:
        """Nodes with dependencies or dependents, dependencies first. Without `ended`: only chains
        in which a node has not ended."""
        linked = [key for key, node in self.nodes.items() if node.after or self.followers.get(key)]
        if ended:
            return self._ordered(linked)
        return self.connected_with(key for key in linked if _lives(self.nodes[key]))

    def connected_with(self, names: Iterable[str]) -> list[str]:
        """These jobs and groups, and all nodes connected with them."""
        found = dict.fromkeys(self._home.get(name, name) for name in names)
        queue = list(found)
        for name in queue:
            node = self.nodes.get(name)
            near = [*(node.after if node else ()), *self.followers.get(name, ())]
            near = [self._home.get(name, name) for name in near]
            queue += [name for name in near if name not in found]
            found.update(dict.fromkeys(near))
        return self._ordered(found)

    def view(self, keys: Sequence[str]) -> GraphView:
        """These nodes as JSON; of a group with all its members."""
        nodes = [self.nodes[key] for key in keys]
        groups = [node for node in nodes if isinstance(node, GroupNode)]
        jobs = {node.name: node for node in nodes if isinstance(node, JobView)}
        jobs |= {job.name: job for group in groups for job in group.members}
        return GraphView(
            jobs=sorted(jobs.values(), key=lambda job: (job.entry_time, job.name)),
            groups=[
                GraphGroup(name=group.name, after=group.after, states=dict(group.states))
                for group in groups
            ],
        )

    def _ordered(self, names: Iterable[str]) -> list[str]:
        return sorted((name for name in names if name in self.nodes), key=self._place)

    def _place(self, key: str) -> tuple[str, str]:
        node = self.nodes[key]
        members = node.members if isinstance(node, GroupNode) else [node]
        return min((job.entry_time for job in members), default=""), key


def graph_tree(graph: JobGraph, keys: Sequence[str]) -> RenderableType:
    """These nodes as trees, dependents below their dependency. A node with several dependencies
    shows its own dependents only once."""
    if not keys:
        return Text("no job comes after another")
    shown = set[str]()
    trees = []
    for key in keys:
        if not any(name in graph.nodes for name in graph.nodes[key].after):
            tree = Tree(_label(graph.nodes[key], ""))
            trees.append(tree)
            _grow(tree, key, graph, shown)
    return Group(*trees)


def _grow(tree: Tree, key: str, graph: JobGraph, shown: set[str]) -> None:
    """Add a node's dependents. Works without recursion: chains may be long."""
    todo = [(tree, key)]
    while todo:
        branch, parent = todo.pop()
        shown.add(parent)
        for follower in graph.followers.get(parent, ()):
            label = _label(graph.nodes[follower], parent)
            if follower in shown and graph.followers.get(follower):
                label.append(" (its followers: see above)", style="dim")
            grown = branch.add(label)
            if follower not in shown:
                shown.add(follower)
                todo.append((grown, follower))


def _label(node: Node, parent: str) -> Text:
    """A node's line: name, state, what else it comes after, and why a job waits or ended."""
    if isinstance(node, GroupNode):
        line = Text(f"group {node.name}  {in_states(node.states)}")
    else:
        line = Text(f"{node.name}  ").append_text(state_text(node.state))
    if others := [_node_name(name) for name in node.after if name != parent]:
        line.append(
            f"  after {', '.join(others)}" if not parent else f"  also after {', '.join(others)}"
        )
    if isinstance(node, JobView) and (text := why(node)):
        line.append(f"  {text}", style="dim")
    return line


def _node_name(name: str) -> str:
    group = name.removeprefix(GROUP_END)
    return name if group == name else f"group {group}"


def _lives(node: Node) -> bool:
    members = node.members if isinstance(node, GroupNode) else [node]
    return any(job.state in LIVING for job in members)
