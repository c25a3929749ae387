"""Reads the emulator's pools from the command line."""

from __future__ import annotations

from collections.abc import Sequence

from slotq_core.adapters.settings import LOCAL_INSTANCE_TYPE, parse_pools, pools_text

DEFAULT = "main=2"


def read_pools(given: Sequence[str]) -> str:
    """The given pools (`NAME=SLOTS[@TYPE][;KEY=SECONDS …]` each, or JSON), as the Lambda's setting
    names them.

    Raises Misconfigured with the fault and the allowed values.
    """
    return pools_text(parse_pools(",".join(given) or DEFAULT, default_type=LOCAL_INSTANCE_TYPE))
