"""Where this slotq was installed from, and the commands that install an extra.

No command asks a package index for slotq or slotq-core: somebody else may own these names there.
In an editable installation a command names the folders, because the installed metadata may be
older than their files. Everywhere else (wheel, git, index) it names the packages of the extra, as
the metadata lists them: a wheel may be gone by now, and its address may need credentials.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from packaging.requirements import Requirement

from slotq.errors import NotConfigured

_CLIENT, _CORE = "slotq", "slotq-core"


def requirements(*extras: str) -> list[Requirement]:
    """The packages of other projects in these extras. Empty where slotq has no metadata (it runs
    from a folder on PYTHONPATH)."""
    found: list[Requirement] = []
    for requirement in _listed(_CLIENT, extras):
        of_core = requirement.name == _CORE
        found += _listed(_CORE, sorted(requirement.extras)) if of_core else [requirement]
    return found


def installed(name: str) -> str | None:
    """The installed version; None if the package is missing."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def require(*extras: str, command: str) -> None:
    """Raises NotConfigured unless all packages of these extras are installed: names all that are
    missing and the command that installs them."""
    unmet, replaced = [], []
    for requirement in requirements(*extras):
        version = installed(requirement.name)
        if version is None:
            unmet.append(requirement.name)
        elif not requirement.specifier.contains(version, prereleases=True):
            unmet.append(f"{requirement.name} {requirement.specifier}, not {version}")
            replaced.append(f"{requirement.name} {version}")
    if unmet:
        kept = f"To keep {', '.join(replaced)}, use another environment. " if replaced else ""
        raise NotConfigured(
            f"{command} needs packages that are missing here: {'; '.join(unmet)}. "
            f"{kept}{_hint(*extras)}"
        )


@contextmanager
def needs_extra(*extras: str, command: str) -> Iterator[None]:
    """Raises NotConfigured if `command` (or an option) lacks a package of these extras, or if an
    import inside fails."""
    require(*extras, command=command)
    try:
        yield
    except ModuleNotFoundError as error:
        raise NotConfigured(
            f"{command} needs {error.name}, which is not installed. {_hint(*extras)}"
        ) from None
    except ImportError as error:
        raise NotConfigured(
            f"{command} needs a package whose import fails: {error}. {_hint(*extras)}"
        ) from error


def install_command(*extras: str) -> str:
    """The command that installs these extras into the environment that slotq runs in."""
    client, core = editable_folder(), editable_folder(_CORE)
    if client is not None and core is not None:
        of_core = [
            name for r in _listed(_CLIENT, extras) if r.name == _CORE for name in sorted(r.extras)
        ]
        return _pip(["-e", _with_extras(core, of_core), "-e", _with_extras(client, extras)])
    return _pip(map(str, requirements(*extras)))


def editable_folder(distribution: str = _CLIENT) -> Path | None:
    """The folder that an editable installation runs from."""
    origin = _origin(distribution)
    if origin is None or not origin.get("dir_info", {}).get("editable"):
        return None
    folder = _path(origin["url"])
    return folder if folder.is_dir() else None


def source() -> str:
    """Where this slotq was installed from, without credentials."""
    origin = _origin(_CLIENT)
    if origin is None:
        return "the package index that it came from"
    address = urlsplit(origin["url"])
    if address.scheme == "file":
        return str(_path(origin["url"]))
    # A signed address has its credentials in the query.
    host = address.netloc.rpartition("@")[2]
    return f"{address.scheme}://{host}{address.path}"


def _hint(*extras: str) -> str:
    if not requirements(*extras):
        return "Install it where slotq runs"
    return f"To install what it needs: {install_command(*extras)}"


def _listed(distribution: str, extras: Iterable[str]) -> Iterator[Requirement]:
    """The requirements of these extras in a distribution's metadata, without their markers."""
    try:
        lines = metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:
        return
    for requirement in map(Requirement, lines):
        marker, requirement.marker = requirement.marker, None
        if marker and any(
            marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""})
            for extra in extras
        ):
            yield requirement


def _origin(distribution: str) -> dict[str, Any] | None:
    """What direct_url.json says (PEP 610). None: installed from an index, or unknown."""
    try:
        text = metadata.distribution(distribution).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None
    return json.loads(text) if text else None


def _path(url: str) -> Path:
    return Path(url2pathname(urlsplit(url).path))


def _with_extras(folder: Path, extras: Iterable[str]) -> str:
    names = ",".join(extras)
    return f"{folder}[{names}]" if names else str(folder)


def _pip(arguments: Iterable[str]) -> str:
    pip = [sys.executable, "-m", "pip", "install"]
    if find_spec("pip") is None:  # uv makes environments without pip
        pip = ["uv", "pip", "install", "--python", sys.executable]
    return shlex.join([*pip, *arguments])
