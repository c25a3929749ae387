"""Properties that are no amounts: texts (`gpu_type: H100`) and booleans (`confidential: true`).

A pool has them, and a job requires them as they are. Inside the queue such a property is an amount
of 1 of the name `NAME=VALUE`, so the rules of properties hold for it. People see the name and the
value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

Value = int | bool | str

_TEXT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,30}")
"""Characters that SageMaker takes in a tag's value, but for those that part a list."""
_SIZE = re.compile(r"[0-9]+([KMGT](i|iB)?)?")
"""A number or a size, which is no word: of a name without a unit it is a mistake."""
RULE = "a text of 1 to 31 letters, digits and ._:/@- that begins with a letter or digit"
PATTERN = f"^{_TEXT.pattern}$"
_BOOLEANS = {"true": True, "false": False}


def read(value: object) -> str | bool | None:
    """The text or boolean; None: it is neither. The text `true` is the boolean."""
    if isinstance(value, str):
        is_text = _TEXT.fullmatch(value) and not _SIZE.fullmatch(value)
        return _BOOLEANS.get(value, value) if is_text else None
    return value if isinstance(value, bool) else None


def is_number(value: object) -> bool:
    """Whether the value is meant as a number or a size."""
    if isinstance(value, str):
        return bool(_SIZE.fullmatch(value))
    return isinstance(value, int | float) and not isinstance(value, bool)


def written(value: Value) -> str:
    """The value as in a tag: `true`, not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def encoded(values: Mapping[str, Value]) -> dict[str, int]:
    """Amounts, texts and booleans as amounts."""
    found = {}
    for name, value in values.items():
        if isinstance(value, bool | str):
            found[f"{name}={written(value)}"] = 1
        else:
            found[name] = value
    return found


def decoded(amounts: Mapping[str, int]) -> dict[str, Value]:
    """Amounts as amounts, texts and booleans."""
    parted = {name: name.partition("=") for name in amounts}
    return {
        base: _BOOLEANS.get(value, value) if sign else amounts[name]
        for name, (base, sign, value) in parted.items()
    }


def is_trait(name: str) -> bool:
    """Whether the amount of this name stands for a text or a boolean."""
    return "=" in name


def base_name(name: str) -> str:
    """The property's name."""
    return name.partition("=")[0]
