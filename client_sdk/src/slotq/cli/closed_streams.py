"""Standard streams that the caller has closed: `slotq ls >&-`, a service without any."""

from __future__ import annotations

import os
import sys


def open_closed() -> None:
    """Lead every closed standard stream to the null device.

    Python has None for a closed stream, and the next file or connection would get its number.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
