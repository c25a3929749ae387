"""The SageMaker SDK for the demo. It calls only the emulator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

try:
    from sagemaker.telemetry import telemetry_logging
except ImportError:  # The first versions have no telemetry.
    telemetry_logging = None


@contextmanager
def quiet() -> Iterator[None]:
    """Switch telemetry off. `slotq.cli.machine.demo_command` silences the SDK's logs before the
    import.

    The function replaces the telemetry sender instead of using the SDK's own opt-out. The opt-out
    is a configuration, and the SDK validates a configuration some seventy times in each fit, which
    takes five seconds.
    """
    if telemetry_logging is None:
        yield
        return
    sender = telemetry_logging._send_telemetry_request  # noqa: SLF001 - see above
    telemetry_logging._send_telemetry_request = _send_nothing  # noqa: SLF001
    try:
        yield
    finally:
        telemetry_logging._send_telemetry_request = sender  # noqa: SLF001


def _send_nothing(*_: object, **__: object) -> None:
    pass
