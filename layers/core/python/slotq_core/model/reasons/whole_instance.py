"""Why a job that asks for GPUs of a node takes whole instances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from slotq_core.model.reasons.reason import Reason

_SENTENCES: Mapping[str, str] = {
    "no_nodes": "none of its pools keeps nodes",
    "instances": "it takes several instances",
    "entry_point": (
        "its request names no ContainerEntrypoint and no script, and a node cannot see the entry "
        "point of its image"
    ),
    "shell": "it allows a shell (RemoteDebugConfig), and jobs of every project share the nodes",
    "few_gpus": "an instance of pool {0} has {1} GPUs, fewer than the pool says",
    "input_mode": "its input mode is {0}; a node reads in File mode",
    "field": "its request has {0}",
    "no_s3": "channel {0} is not read from S3 ({1})",
    "manifest": "channel {0} is a {1}; a node reads an S3Prefix",
    "sharding": "channel {0} is sharded; a node reads all of it (FullyReplicated)",
    "channel_mode": "channel {0} is read in {1} mode; a node reads in File mode",
    "channel_field": "channel {0} has {1}",
}
"""By code, with the names that belong to it."""
_LONGEST = 64
"""The most characters of a name."""
_SHOWN = 10
"""The most causes in a sentence."""


class WholeCause:
    """One cause in the form that jobs store: a code and its names, separated by spaces."""

    @staticmethod
    def written(code: str, *names: str) -> str:
        assert code in _SENTENCES, code
        return " ".join((code, *(name[:_LONGEST].replace(" ", "_") or "-" for name in names)))

    @staticmethod
    def sentence(cause: str) -> str:
        """Return the cause in words; one of a later version as it is."""
        code, *names = cause.split(" ")
        try:
            return _SENTENCES[code].format(*names)
        except (KeyError, IndexError):
            return cause


@dataclass(frozen=True, kw_only=True, slots=True)
class WholeInstance(Reason):
    """The job asked for GPUs of a node, and takes whole instances."""

    code: ClassVar[str] = "whole_instance"
    causes: tuple[str, ...]
    """Each a code, and what it names: `sharding train`."""

    def sentence(self) -> str:
        said = [WholeCause.sentence(cause) for cause in self.causes[:_SHOWN]]
        more = len(self.causes) - len(said)
        rest = f"; and {more} more" if more > 0 else ""
        return f"takes a whole instance, not GPUs of a node: {'; '.join(said)}{rest}"
