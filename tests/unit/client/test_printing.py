"""`slotq.print_queue_state()`."""

from __future__ import annotations

import io

import slotq
from tests.unit.client.fake_queue import served


def test_live_jobs_are_printed_with_name_state_and_priority(queue, capsys, monkeypatch):
    queue.jobs["job3"] = queue.jobs["job3"].model_copy(update={"priority": -10})
    with served(queue) as endpoint:
        monkeypatch.setenv("SLOTQ_ENDPOINT", endpoint)
        slotq.print_queue_state()
    assert capsys.readouterr().out.splitlines() == [
        "Job Name  State    Priority",
        "job1      running         1",
        "job3      pending       -10",
    ]


def test_the_queue_the_states_and_the_file_can_be_given(queue, http):
    from tests.unit.client.fake_queue import client_of

    out = io.StringIO()
    slotq.print_queue_state(client_of(http), states=None, file=out)
    assert [line.split()[0] for line in out.getvalue().splitlines()[1:]] == ["job1", "job3", "job9"]
    out = io.StringIO()
    slotq.print_queue_state(client_of(http), states=["held"], file=out)
    assert out.getvalue() == "Job Name  State  Priority\n"
