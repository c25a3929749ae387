"""Optional dependencies: what a command needs beyond `pip install slotq`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from slotq.errors import NotConfigured


@contextmanager
def needs_extra(name: str, *, command: str) -> Iterator[None]:
    """If an import inside finds no package, say that `command` (or an option) needs an extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise NotConfigured(
            f"{command} needs {error.name}, which is not installed: pip install 'slotq[{name}]'"
        ) from None
