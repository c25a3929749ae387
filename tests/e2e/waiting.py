"""Waiting for real processes."""

from __future__ import annotations

import threading
import time

PATIENCE = 180.0


def until(condition, what):
    end, pause = time.monotonic() + PATIENCE, 0.1
    while not condition():
        assert time.monotonic() < end, f"after {PATIENCE:g} s: {what}"
        time.sleep(pause)
        pause = min(pause * 1.3, 0.5)  # Each look costs the emulator as much as a step of work.


def in_background(work):
    """Run it in a thread. `join` returns the error that it raised, or None."""
    raised = []

    def run():
        try:
            work()
            raised.append(None)
        except Exception as error:  # noqa: BLE001 - it is handed on
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def join():
        thread.join(PATIENCE)
        assert raised, "it did not return"
        return raised[0]

    return join
