"""Change the config file: only the given settings, and readable for its owner alone."""

from __future__ import annotations

import json
import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slotq.configuration.settings import PROFILES
from slotq.errors import NotConfigured

Values = Mapping[str, str | int | None]
"""New values by setting; None removes the setting."""


def changed(path: Path, text: str, values: Values, *, profile: str | None) -> str:
    """The text with these settings changed; comments and other settings stay.

    `profile` selects that profile's table; None selects the lines above all tables. Raises
    NotConfigured if the text is not TOML, or its layout prevents the change.
    """
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NotConfigured(f"{path} cannot be read as TOML: {error}") from None
    lines = text.splitlines()
    first, last = _table(lines, profile)
    own = lines[first:last]
    for setting, value in values.items():
        own = _with(own, setting, value)
    after = "\n".join([*lines[:first], *own, *lines[last:]]).strip("\n") + "\n"
    if _read(after) != _expected(before, values, profile):
        raise NotConfigured(
            f"{path} has a form that `slotq configure` cannot change; edit it by hand"
        )
    return after


def save(path: Path, text: str) -> None:
    """Replace the file atomically. Only the owner may read the file and a newly made folder.

    Raises NotConfigured if the file cannot be written.
    """
    target = path.resolve()
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # mkstemp creates files that only the owner can read.
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(name).replace(target)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise NotConfigured(f"{path} cannot be written: {error.strerror or error}") from None


def _table(lines: list[str], profile: str | None) -> tuple[int, int]:
    """The range of lines of the table; appends a missing table to `lines`."""
    heads = [n for n, line in enumerate(lines) if line.lstrip().startswith("[")]
    if profile is None:
        return 0, heads[0] if heads else len(lines)
    wanted = re.compile(rf"\s*\[\s*{PROFILES}\s*\.\s*\"?{re.escape(profile)}\"?\s*\]\s*(#.*)?")
    for place, head in enumerate(heads):
        if wanted.fullmatch(lines[head]):
            return head + 1, heads[place + 1] if place + 1 < len(heads) else len(lines)
    lines += ["", f"[{PROFILES}.{profile}]"]
    return len(lines), len(lines)


def _with(own: list[str], setting: str, value: str | int | None) -> list[str]:
    there = next((n for n, line in enumerate(own) if re.match(rf"\s*{setting}\s*=", line)), None)
    line = [] if value is None else [f"{setting} = {json.dumps(value, ensure_ascii=False)}"]
    if there is not None:
        return [*own[:there], *line, *own[there + 1 :]]
    end = len(own)
    while end and not own[end - 1].strip():
        end -= 1
    return [*own[:end], *line, *own[end:]]


def _read(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _expected(before: dict[str, Any], values: Values, profile: str | None) -> dict[str, Any]:
    own = before if profile is None else before.setdefault(PROFILES, {}).setdefault(profile, {})
    for setting, value in values.items():
        own.pop(setting, None)
        if value is not None:
            own[setting] = value
    return before
