"""A pass is asked for later, by a message or a timer, and a lost request stops nothing."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from slotq.local.training.virtual_runner import VirtualClock
from slotq_core.adapters.deployment_settings import SystemClock
from slotq_core.adapters.notifiers import MARGIN, MessageAlarm, TimerAlarm
from slotq_core.ports.surroundings import LONGEST_DELAY
from slotq_core.wire.pool_definition import longest

NOW = 1_790_000_000_000


class Queue:
    def __init__(self, error: Exception | None = None) -> None:
        self.sent: list[dict[str, Any]] = []
        self._error = error

    def send_message(self, **request: Any) -> None:
        if self._error:
            raise self._error
        self.sent.append(request)


def delay_of(ahead: int) -> int:
    queue = Queue()
    MessageAlarm(lambda: queue, "url", VirtualClock(NOW)).ring_at(NOW + ahead)
    (sent,) = queue.sent
    assert (sent["QueueUrl"], json.loads(sent["MessageBody"])) == ("url", {"at": NOW + ahead})
    return int(sent["DelaySeconds"])


@pytest.mark.parametrize(
    ("ahead", "delay"),
    [(5_000, 5 + MARGIN), (4_001, 5 + MARGIN), (0, MARGIN), (-9_000, 0), (10**9, 900)],
)
def test_a_message_comes_a_little_late_and_never_early(ahead, delay):
    assert delay_of(ahead) == delay


def test_the_longest_grace_ends_in_time():
    """SQS delays a message by 15 minutes at most."""
    assert longest("suspend_grace") + 1 + MARGIN < LONGEST_DELAY // 1000


def test_a_message_that_cannot_be_sent_is_left_to_the_tick():
    MessageAlarm(lambda: Queue(OSError("no way")), "url", VirtualClock(NOW)).ring_at(NOW)


def test_a_timer_rings_in_its_own_thread():
    rung = threading.Event()
    clock = SystemClock()
    TimerAlarm(rung.set, clock).ring_at(clock.now() + 20)
    assert rung.wait(120)
