"""Dataclasses without the compiler: half of what importing the core costs.

The dataclass decorator writes each class's methods as text and compiles it, at every cold start
anew. `build_layer.py` notes those texts when it builds the layer and keeps them compiled; in the
layer, where this file is `slotq_core/prepared.py`, the decorator is given what was kept. A text
that is not among them, and a Python of another make, are compiled as ever.
"""

import builtins
import dataclasses
import marshal
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

KEPT = Path(__file__).with_name("prepared.bin")


def use() -> None:
    """From now on."""
    data = KEPT.read_bytes()
    if not data.startswith(MAGIC_NUMBER):
        return
    # The layer's own file, made by its build.
    code = marshal.loads(data[len(MAGIC_NUMBER) :])  # noqa: S302 # nosec B302

    def execute(source: str, *scopes: Any) -> None:
        builtins.exec(code.get(source, source), *scopes)  # noqa: S102

    dataclasses.exec = execute  # type: ignore[attr-defined]


def keep(texts: set[str]) -> None:
    """When the layer is built."""
    compiled = {text: compile(text, "<dataclass>", "exec") for text in sorted(texts)}
    KEPT.write_bytes(MAGIC_NUMBER + marshal.dumps(compiled))
