"""Controls which environment variables the demo sees."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_KEPT = (
    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ",
    "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "VIRTUAL_ENV",
    "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
)  # fmt: skip
"""Variables that locate programs, packages and folders."""


@contextmanager
def bare() -> Iterator[None]:
    """Keep only the variables in `_KEPT`: a proxy, a profile, or the user's settings of a library
    or an SDK would change what the demo shows. An import already reads some of them."""
    with _replaced({name: os.environ[name] for name in _KEPT if name in os.environ}):
        yield


@contextmanager
def with_variables(values: Mapping[str, str], *, instead_of: tuple[str, ...]) -> Iterator[None]:
    """Set these variables. Keep the others, except those whose names begin with `instead_of`."""
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
