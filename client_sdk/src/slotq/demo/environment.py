"""What the demo takes of the environment that it is started in."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_KEPT = (
    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ",
    "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "VIRTUAL_ENV",
    "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
)  # fmt: skip
"""What finds programs, packages and folders."""


@contextmanager
def bare() -> Iterator[None]:
    """Nothing else: a proxy, a profile, a library's or an SDK's setting of the user's would change
    what the demo shows. Some are read as early as at an import."""
    with _replaced({name: os.environ[name] for name in _KEPT if name in os.environ}):
        yield


@contextmanager
def with_variables(values: Mapping[str, str], *, instead_of: tuple[str, ...]) -> Iterator[None]:
    """These, and of those that there are all whose name does not begin so."""
    others = {name: os.environ[name] for name in os.environ if not name.startswith(instead_of)}
    with _replaced({**others, **values}):
        yield


@contextmanager
def _replaced(values: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
