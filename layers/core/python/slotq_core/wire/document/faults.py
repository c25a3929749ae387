"""The faults of a document: their places, and the corrections.

The data model (`sections`) or a check across sections (`checks`) finds them, and all are reported
together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NoReturn, Protocol

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from slotq_core.errors import InvalidRequest
from slotq_core.spelling import did_you_mean, listed, plain_name
from slotq_core.wire.training.training_request import MOST_FAULTS, RequestFault, refusal

Loc = tuple[int | str, ...]
"""The path to a value: keys and list indexes."""


class Keyed(Protocol):
    """A section that has keys."""

    synonyms: ClassVar[Mapping[str, str]]
    """Words that people write for a key, and the key."""

    @classmethod
    def keys(cls) -> Sequence[str]: ...


Keys = Mapping[str, type[Keyed]]
"""The sections whose entries have keys (`pools`, `pools.changes`). The empty name maps to the
whole."""


@dataclass(frozen=True, slots=True)
class DocumentFault:
    """One fault. `loc` is relative to the section that raises it."""

    loc: Loc
    message: str
    unknown: tuple[str, Collection[str]] | None = field(default=None, compare=False)
    """A name that does not exist, and the names that do: for a hint. It costs time, so that only
    the faults that are shown get one."""

    @property
    def hinted(self) -> str:
        """The message, with the name that may be meant."""
        if self.unknown is None:
            return self.message
        name, known = self.unknown
        return self.message + did_you_mean(name, sorted(known))


def refuse(*faults: DocumentFault) -> NoReturn:
    """Raise faults in a validator of the data model, which adds the path to the section."""
    raise ValidationError.from_exception_data(
        "document",
        [
            InitErrorDetails(
                type=PydanticCustomError(
                    "fault",
                    "{message}",
                    {"message": fault.hinted if number < MOST_FAULTS else fault.message},
                ),
                loc=fault.loc,
                input=None,
            )
            for number, fault in enumerate(faults)
        ],
    )


def faults_of(
    error: ValidationError, keys: Keys | None = None, what: str = ""
) -> list[DocumentFault]:
    """The faults that the data model found. `what`: the whole document's name in a message. The
    first unknown key of a section lists its keys. Faults beyond `MOST_FAULTS`, which are not shown,
    have no hints: the hints of a hostile document would take seconds."""
    known, listed_keys = keys or {}, set[str]()
    faults = []
    for number, fault in enumerate(error.errors(include_url=False)):
        message = _message(fault)
        if fault["type"] == "extra_forbidden" and number < MOST_FAULTS:
            section = ".".join(part for part in fault["loc"][:-1] if isinstance(part, str))
            message += _hint(str(fault["loc"][-1]), known.get(section))
            if section not in listed_keys and section in known:
                here = f"an entry of {section}" if section else what
                message += f"{'' if message.endswith('?') else ';'} {here} takes "
                message += ", ".join(known[section].keys())
            listed_keys.add(section)
        faults.append(DocumentFault(tuple(fault["loc"]), message))
    return faults


def unknown(where: Loc, what: str, name: str, known: Collection[str]) -> DocumentFault:
    message = f"there is no {what} '{name}'; these exist: {listed(sorted(known))}"
    return DocumentFault(where, message, unknown=(name, known))


_LONGEST_PATH, _LONGEST_MESSAGE = 200, 500
"""The most characters of a fault. A key from the document may be part of it."""


def refused(faults: Iterable[DocumentFault]) -> InvalidRequest:
    """The error that lists all faults by their paths."""
    return refusal(
        [
            RequestFault(
                path=spelled(fault.loc)[:_LONGEST_PATH],
                message=(fault.hinted if number < MOST_FAULTS else fault.message)[
                    :_LONGEST_MESSAGE
                ],
            )
            for number, fault in enumerate(faults)
        ]
    )


def spelled(loc: Loc) -> str:
    """`jobs[3].slots`"""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return text.removeprefix(".")


def said(value: object) -> str:
    """A value of the file, shortened for a message."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list | tuple):
        return "a list"
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= 40 else text[:37] + "…"


def _message(found: ErrorDetails) -> str:
    match found["type"]:
        case "extra_forbidden":
            return "there is no such key"
        case "missing":
            return "this key is needed"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"a map of keys is needed, not {said(found['input'])}"
        case "tuple_type" | "list_type":
            return f"a list is needed, not {said(found['input'])}"
        case "enum":
            wanted = found.get("ctx", {}).get("expected", "")
            return f"one of {wanted} is needed, not {said(found['input'])}"
    return found["msg"].removeprefix("Value error, ")


def _hint(key: str, section: type[Keyed] | None) -> str:
    """A hint: the key of the same meaning, else one with a similar spelling."""
    if section is None:
        return ""
    meant = section.synonyms.get(plain_name(key))
    return did_you_mean(meant or key, section.keys())
