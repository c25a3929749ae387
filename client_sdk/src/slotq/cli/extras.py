"""What a command needs beyond `pip install slotq`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from slotq.errors import NotConfigured


@contextmanager
def extra(name: str, *, of: str) -> Iterator[None]:
    """Where an import inside finds no package, `of` (a command, an option) needs that extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise NotConfigured(
            f"{of} needs {error.name}, which is not installed: pip install 'slotq[{name}]'"
        ) from None
