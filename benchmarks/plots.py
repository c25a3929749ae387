"""The plots of docs/performance.md. Each holds its points in its description, for the test."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.results import ROOT, Results, measured

FILE = ROOT / "docs" / "pictures" / "performance.svg"
CLASSIC = "scan, sort, list"
_NOW, _BEFORE, _OTHER = "#1f77b4", "#a0a0a0", "#d62728"

Curves = Mapping[str, Mapping[int, float]]
"""Points by name of the curve."""


def write(kept: Results, path: Path = FILE) -> None:
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "slotq"}):
        drawn = points(kept)
        figure = Figure(figsize=(11, 3.4), layout="constrained")
        every = figure.subplots(1, len(drawn), squeeze=False)[0]
        for axes, (title, curves) in zip(every, drawn.items(), strict=True):
            _draw(axes, title, curves)
        svg = StringIO()
        about = {"Date": None, "Description": json.dumps(drawn)}
        figure.savefig(svg, format="svg", metadata=about)
    path.write_text("\n".join(line.rstrip() for line in svg.getvalue().splitlines()) + "\n")


def points(kept: Results) -> dict[str, Curves]:
    """The plots: what is shown, and each curve's points."""
    versions = measured(kept, "passes")
    now = [*measured(kept, "classic").values()][-1]
    ours = {name: _passes(parts, "waiting", "read_units") for name, parts in versions.items()}
    return {
        "rounds of calls of a pass, by lines": {
            name: _passes(parts, "lines", "rounds") for name, parts in versions.items()
        },
        "read units of a pass, by active jobs": {
            name: _passes(parts, "active", "read_units") for name, parts in versions.items()
        },
        "read units of an event, by waiting jobs": {**ours, CLASSIC: _classic(now)},
    }


def _passes(parts: Mapping[str, Any], dimension: str, figure: str) -> dict[int, float]:
    """A figure of the pass with one decision, over one dimension."""
    found = {}
    for name, kinds in parts["passes"].items():
        first, _, step = name.rpartition(" ")
        if first == dimension:
            found[int(step.replace(",", ""))] = kinds["one decision"][figure]
    return found


def _classic(parts: Mapping[str, Any]) -> dict[int, float]:
    return {
        int(name.removesuffix(" waiting").replace(",", "")): kinds["one decision"]["read_units"]
        for name, kinds in parts["classic"].items()
        if name.endswith(" waiting")
    }


def _draw(axes: Axes, title: str, curves: Curves) -> None:
    colours = dict.fromkeys(curves, _BEFORE)
    colours[[name for name in curves if name != CLASSIC][-1]] = _NOW
    colours[CLASSIC] = _OTHER
    for name, curve in curves.items():
        axes.plot([*curve], [*curve.values()], marker="o", ms=4, color=colours[name], label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(bottom=1)
    axes.set_title(title, loc="left", fontsize=9)
    axes.grid(color="#dddddd", lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False)
