"""The SageMaker SDK for the demo: calls nobody but the emulator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

try:
    from sagemaker.telemetry import telemetry_logging
except ImportError:  # The first versions have no telemetry.
    telemetry_logging = None


@contextmanager
def quiet() -> Iterator[None]:
    """No telemetry. Its logs are silenced before it is imported (`slotq.cli.machine.demo_command`).

    The sender of telemetry is taken out, and not by the SDK's own opt-out: that is a configuration,
    and the SDK validates a configuration some seventy times in each fit, which takes five seconds.
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
