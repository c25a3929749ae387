"""`results.json`: the figures of each measured version, without names of machines or paths."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slotq_core import __version__

FILE = Path(__file__).with_name("results.json")
ROOT = FILE.parents[1]
CODE = ("layers", "functions", "client_sdk")
"""What is measured. A commit that changes nothing here has the figures of the one before."""

Parts = dict[str, Any]
Results = dict[str, Parts]
"""The parts by version, the oldest first."""


def read() -> Results:
    results: Results = json.loads(FILE.read_text()) if FILE.exists() else {}
    return results


def keep(version: str, parts: Mapping[str, Any]) -> None:
    """Put these parts in the place of the version's own."""
    results = read()
    results[version] = {**results.get(version, {}), **parts}
    FILE.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def present() -> str:
    """The version of the code, with the last commit that changed it."""
    command = ["git", "log", "-1", "--format=%h", "--", *CODE]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return f"{__version__} {ran.stdout.strip()}".strip()


def measured(results: Results, part: str) -> Results:
    """The last two versions that have this part."""
    return dict([(name, parts) for name, parts in results.items() if part in parts][-2:])


def before(results: Results, version: str) -> tuple[str, Parts]:
    """The last version in the file that is another one; empty if there is none."""
    others = [name for name in results if name != version]
    return (others[-1], results[others[-1]]) if others else ("", {})
