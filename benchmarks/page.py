"""The measured tables of the docs, and the plots of docs/performance.md, from results.json.

`make bench ARGS=--write` brings them up to date; so does `python -m benchmarks.page`.

A table stands between `<!-- NAME -->` and `<!-- end -->`; everything else is written by hand and
holds no measured figure. A test compares the pages with the results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks import plots, results, teams
from benchmarks.promises import PROMISES

PAGES = tuple(results.ROOT / "docs" / name for name in ("performance.md", "share-a-cluster.md"))
_BLOCK = re.compile(r"<!-- (?P<name>[a-z ]+) -->\n.*?<!-- end -->", re.DOTALL)
_MUCH = {"calls": "calls", "rounds": "rounds", "read_units": "read units"}

_START = {
    "cpu_ms": "ms of CPU",
    "ratio": "times the baseline's CPU",
    "modules": "modules",
    "instructions": "million instructions",
    "read_kb": "KB read",
    "read": "times the baseline's KB",
}

Versions = Mapping[str, Mapping[str, Any]]
"""The last two that measured what a table shows, or all: parts by name."""


def write() -> None:
    """Bring the pages and the plots up to date."""
    kept = results.read()
    for page in PAGES:
        page.write_text(filled(page.read_text(), kept))
    plots.write(kept)


def filled(text: str, kept: results.Results) -> str:
    """The page with the tables of these results."""

    def block(found: re.Match[str]) -> str:
        part, table = TABLES[found["name"]]
        versions = results.measured(kept, part) if part else kept
        try:
            rows = [*table(versions)]
        except KeyError as part:
            rows = [[f"{part}: not measured in this version"]]
        return f"<!-- {found['name']} -->\n{_markdown(rows)}<!-- end -->"

    return _BLOCK.sub(block, text)


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


Rows = Iterator[Sequence[str]]


def _promises(versions: Versions) -> Rows:
    values = {
        version: found
        for version, parts in versions.items()
        if any(found := [promise.value(parts) for promise in PROMISES])
    }
    yield ["", *values, "must reach"]
    for number, promise in enumerate(PROMISES):
        yield [promise.what, *(_text(found[number]) for found in values.values()), promise.bound]


def _passes(versions: Versions) -> Rows:
    """A pass with one decision, in each world."""
    yield ["", *_MUCH.values()]
    for name in _now(versions)["passes"]:
        yield [name, *_cells(versions, ("passes", name, "one decision"), _MUCH)]


def _kinds(versions: Versions) -> Rows:
    """Each kind of pass with many lines."""
    yield ["2,000 lines", *_MUCH.values()]
    for kind in _now(versions)["passes"]["2,000 lines"]:
        yield [kind, *_cells(versions, ("passes", "2,000 lines", kind), _MUCH)]


def _many(versions: Versions) -> Rows:
    """Many changes at once."""
    yield ["", *_MUCH.values()]
    for name in _now(versions)["many at once"]:
        yield [name, *_cells(versions, ("many at once", name), _MUCH)]


def _cpu(versions: Versions) -> Rows:
    """The latest passes in functions of several memories."""
    kept = _now(versions)["cpu"]
    named = (name for figures in kept.values() for name in figures if name.startswith("seconds_"))
    memories = [name.removeprefix("seconds_") for name in dict.fromkeys(named)]
    yield ["", "rounds", "ms of CPU", *(f"{memory} MB: s; USD" for memory in memories)]
    for name, figures in kept.items():
        lasts = (f"{figures[f'seconds_{it}']}; {figures[f'usd_{it}']}" for it in memories)
        yield [name, _text(figures["rounds"]), _text(figures["cpu_ms"]), *lasts]


def _submissions(versions: Versions) -> Rows:
    yield ["", *_MUCH.values()]
    for name in _now(versions)["submissions"]:
        yield [name, *_cells(versions, ("submissions", name, "first"), _MUCH)]
        yield ["… first look at it", *_cells(versions, ("submissions", name, "look"), _MUCH)]


def _project_passes(versions: Versions) -> Rows:
    """Each kind of pass, in each queue with projects."""
    yield ["", *_MUCH.values()]
    for name, kinds in _now(versions)["projects"]["passes"].items():
        for kind in kinds:
            path = ("projects", "passes", name, kind)
            yield [f"{name}: {kind}", *_cells(versions, path, _MUCH)]


def _shapes(versions: Versions) -> Rows:
    """Each kind of pass, in each shape of queue."""
    yield ["", *_MUCH.values()]
    for name, kinds in _now(versions)["shapes"].items():
        for kind in kinds:
            yield [f"{name}: {kind}", *_cells(versions, ("shapes", name, kind), _MUCH)]


def _project_submissions(versions: Versions) -> Rows:
    yield ["", *_MUCH.values()]
    for name in _now(versions)["projects"]["submissions"]:
        path = ("projects", "submissions", name)
        yield [name, *_cells(versions, (*path, "first"), _MUCH)]
        yield ["… first look at it", *_cells(versions, (*path, "look"), _MUCH)]


def _life(versions: Versions) -> Rows:
    yield ["step", "call", "items", "read units", "write units"]
    for step, calls in _now(versions)["life"]["steps"].items():
        for number, call in enumerate(calls):
            times = f"{call['times']} × " if call["times"] > 1 else ""
            units = [_text(call["read_units"]), _text(call["write_units"])]
            yield ["" if number else step, times + call["call"], call["items"], *units]


def _open_page(versions: Versions) -> Rows:
    names = {"calls": "calls", "read_units": "read units", "kilobytes": "KB before compression"}
    yield ["in a minute", *names.values()]
    for name, looks in _now(versions)["open page"].items():
        for look in looks:
            yield [f"{name}: {look}", *_cells(versions, ("open page", name, look), names)]


def _emulator(versions: Versions) -> Rows:
    """The emulator's CPU, and that of the commands that call it."""
    heads = [f"{name}: {who}" for name in versions for who in ("emulator", "client")]
    yield ["CPU seconds", *heads]
    for what in _now(versions)["emulator"]:
        found = [_at(parts, ("emulator", what)) for parts in versions.values()]
        rows = [figures if isinstance(figures, Mapping) else {} for figures in found]
        yield [what, *(_text(row.get(who)) for row in rows for who in ("emulator", "client"))]


def _nodes(versions: Versions) -> Rows:
    """How soon jobs begin on a node."""
    names = {"n": "measured", "p50": "median", "p95": "p95", "most": "most"}
    yield ["seconds", *names.values()]
    for what in _now(versions)["nodes"]:
        yield [what, *_cells(versions, ("nodes", what), names)]


def _classic(versions: Versions) -> Rows:
    yield ["", "calls", "read units", "write units", "calls of ListTrainingJobs"]
    names = ("calls", "read_units", "write_units", "lists")
    for waiting, kinds in _now(versions)["classic"].items():
        for kind, figures in kinds.items():
            if isinstance(figures, Mapping):
                yield [f"{kind}, {waiting}", *(_text(figures[name]) for name in names)]


def _classic_errors(versions: Versions) -> Rows:
    found = _now(versions)["classic"]["two handlers at once"]
    yield ["moments at which a second handler acts", "more slots in use than there are"]
    yield [_text(found["moments"]), _text(found["over_capacity"])]


def _plans(versions: Versions) -> Rows:
    yield ["CPU seconds", *versions, "what"]
    for name, figures in _now(versions)["plans"].items():
        values = [_at(parts, ("plans", name, "cpu_seconds")) for parts in versions.values()]
        yield [name, *map(_text, values), figures["about"]]


def _start(versions: Versions) -> Rows:
    yield ["", *versions]
    for kind in _now(versions)["cold start"]:
        for figure, text in _START.items():
            values = [_at(parts, ("cold start", kind, figure)) for parts in versions.values()]
            if any(values):
                yield [f"{kind}, {text}", *map(_text, values)]
    for what in _now(versions)["memory"]:
        values = [_at(parts, ("memory", what)) for parts in versions.values()]
        yield [f"memory, {what} (MB)", *map(_text, values)]


def _trace(versions: Versions) -> Rows:
    names = {
        "utilisation": "utilisation",
        "wait_mean_hours": "mean wait (h)",
        "wait_p95_hours": "p95 wait (h)",
        "makespan_hours": "makespan (h)",
        "evictions": "evictions",
        "lost_slot_hours": "work lost (slot-hours)",
    }
    yield from _by_way(versions, "trace", names)


def _drain_trace(versions: Versions) -> Rows:
    names = {
        "idle": "idle while it drains",
        "drained_slot_hours": "slot-hours while it drains",
        "utilisation": "utilisation",
        "wait_mean_hours": "mean wait (h)",
        "wait_p95_hours": "p95 wait (h)",
    }
    yield from _by_way(versions, "drains in a trace", names)


def _node_trace(versions: Versions) -> Rows:
    names = {
        "machines": "machines",
        "use": "use",
        "wait_mean_hours": "mean wait (h)",
        "wait_p95_hours": "p95 wait (h)",
        "machine_hours": "machine-hours",
        "consolidations": "consolidations",
        "moved": "jobs moved",
        "paused_gpu_hours": "GPU-hours paused",
        "stopped_gpu_hours": "GPU-hours stopped",
    }
    yield from _by_way(versions, "nodes in a trace", names)


def _evictions(versions: Versions) -> Rows:
    names = {
        "useful": "useful slot-time",
        "starts": "starts",
        "evictions": "evictions",
        "starting_percent": "while starting (%)",
        "soon_percent": "within 3 min of running (%)",
        "most_in_an_hour": "most of one job in an hour",
        "wait_2_p95_hours": "p95 wait, priority 2 (h)",
        "wait_1_p95_hours": "priority 1 (h)",
        "wait_0_p95_hours": "priority 0 (h)",
    }
    yield from _by_way(versions, "evictions", names)


def _by_way(versions: Versions, part: str, names: Mapping[str, str]) -> Rows:
    """A row for each way to schedule a trace. `names`: the columns, by figure."""
    yield ["", *names.values()]
    for way, figures in _now(versions)[part].items():
        yield [way, *(_text(figures.get(name)) for name in names)]


def _of_kind(kind: str) -> Callable[[Versions], Rows]:
    """How long jobs wait in one kind of team, with each of its settings."""

    def rows(versions: Versions) -> Rows:
        settings = _now(versions)["teams"][kind]
        whose = [*next(iter(settings.values()))["hours"]]
        yield ["settings", *(f"{it.replace('-', ' ')}: wait, p95 (h)" for it in whose), "evictions"]
        for said, figures in settings.items():
            hours = (figures["hours"][it] for it in whose)
            waits = (f"{_text(each['mean'])}, {_text(each['p95'])}" for each in hours)
            yield [said, *waits, _text(figures["evictions"])]

    return rows


def _limits(versions: Versions) -> Rows:
    worlds = _now(versions)["limits"]
    yield ["partition", *(f"{world}: peak, late (s)" for world in worlds)]
    busiest = {name: figures["partitions"] for name, figures in worlds.items()}
    for partition in next(iter(busiest.values())):
        cells = [each.get(partition, {}) for each in busiest.values()]
        texts = [f"{_text(c.get('peak'))}, {_text(c.get('late_seconds'))}" for c in cells]
        yield [partition, *texts]


def _rates(versions: Versions) -> Rows:
    """How many submissions and passes fit into a second, and what bounds them."""
    worlds = _now(versions)["limits"]
    yield ["at most, a second", *worlds]
    for what in ("submissions", "passes"):
        each = [figures[what] for figures in worlds.values()]
        yield [what, *(f"{_text(one['a second'])}: {one['bound']}" for one in each)]


def _sizes(versions: Versions) -> Rows:
    worlds = _now(versions)["limits"]
    yield ["", *worlds, "DynamoDB's limit"]
    for name, limit in (
        ("actions of a transaction", "100"),
        ("bytes of an item", "409,600"),
        ("bytes of a pool's jobs", "1,048,576 a page"),
    ):
        yield [name, *(_text(figures[name]) for figures in worlds.values()), limit]


def _burst(versions: Versions) -> Rows:
    yield ["", *versions]
    for name, text in (
        ("ratio", "ratio"),
        ("submissions_per_second", "submissions a second"),
        ("transactions_per_second", "raw transactions a second"),
    ):
        values = [_at(parts, ("burst", name)) for parts in versions.values()]
        yield [text, *map(_text, values)]


def _burst_parts(versions: Versions) -> Rows:
    """What a submission in a burst consists of."""
    yield ["", "times a raw transaction"]
    for name, share in _now(versions)["burst"]["parts"].items():
        yield [name, _text(share)]


TABLES: Mapping[str, tuple[str, Callable[[Versions], Rows]]] = {
    "promises": ("", _promises),
    "passes": ("passes", _passes),
    "kinds of pass": ("passes", _kinds),
    "many at once": ("many at once", _many),
    "project passes": ("projects", _project_passes),
    "shapes": ("shapes", _shapes),
    "cpu": ("cpu", _cpu),
    "submissions": ("submissions", _submissions),
    "project submissions": ("projects", _project_submissions),
    "life": ("life", _life),
    "open page": ("open page", _open_page),
    "emulator": ("emulator", _emulator),
    "nodes": ("nodes", _nodes),
    "classic": ("classic", _classic),
    "classic errors": ("classic", _classic_errors),
    "plans": ("plans", _plans),
    "start": ("cold start", _start),
    "trace": ("trace", _trace),
    "drains in a trace": ("drains in a trace", _drain_trace),
    "nodes in a trace": ("nodes in a trace", _node_trace),
    "evictions": ("evictions", _evictions),
    **{f"team of {kind}": ("teams", _of_kind(kind)) for kind in teams.KINDS},
    "limits": ("limits", _limits),
    "rates": ("limits", _rates),
    "sizes": ("limits", _sizes),
    "burst": ("burst", _burst),
    "burst parts": ("burst", _burst_parts),
}
"""Each table, and the part that it shows; empty: of all parts."""


def _now(versions: Versions) -> Mapping[str, Any]:
    return [*versions.values()][-1]


def _cells(versions: Versions, path: tuple[str, ...], names: Iterable[str]) -> list[str]:
    """Each figure, after what it was in the version before."""
    every = ([_at(parts, (*path, name)) for parts in versions.values()] for name in names)
    return [" → ".join(_text(value) for value in dict.fromkeys(values)) for values in every]


def _at(figures: Any, path: Sequence[str]) -> Any:
    for name in path:
        figures = figures.get(name) if isinstance(figures, Mapping) else None
    return figures


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:,.10g}"


if __name__ == "__main__":
    write()
