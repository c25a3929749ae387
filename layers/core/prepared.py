"""Precompiled dataclasses: they halve the time to import the core.

The dataclass decorator writes each class's methods as text and compiles it at every cold start.
`build_layer.py` collects those texts when it builds the layer, and stores them compiled, under
their digests: the texts themselves would be a third of the file. In the layer this file is
`slotq_core/prepared.py`, and the decorator uses the stored code. Texts that are not stored, and
every text on another version of Python, are compiled as usual.
"""

import builtins
import dataclasses
import marshal
from hashlib import blake2b
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

KEPT = Path(__file__).with_name("prepared.bin")


def use() -> None:
    """Make the dataclass decorator use the stored code from now on."""
    data = KEPT.read_bytes()
    if not data.startswith(MAGIC_NUMBER):
        return
    # The layer's build made this file.
    code = marshal.loads(data[len(MAGIC_NUMBER) :])  # noqa: S302 # nosec B302

    def execute(source: str, *scopes: Any) -> None:
        builtins.exec(code.get(_digest(source), source), *scopes)  # noqa: S102

    dataclasses.exec = execute  # type: ignore[attr-defined]


def keep(texts: set[str]) -> None:
    """Compile and store the texts, when the layer is built."""
    compiled = {_digest(text): compile(text, "<dataclass>", "exec") for text in sorted(texts)}
    KEPT.write_bytes(MAGIC_NUMBER + marshal.dumps(compiled))


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()
