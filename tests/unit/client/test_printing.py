"""`slotq.print_queue_state()`."""

from __future__ import annotations

import io

import slotq
from tests.unit.client.fake_queue import served


def test_name_state_and_priority_of_the_living(queue, capsys, monkeypatch):
    queue.jobs["job3"] = queue.jobs["job3"].model_copy(update={"priority": -10})
    with served(queue) as endpoint:
        monkeypatch.setenv("SLOTQ_ENDPOINT", endpoint)
        slotq.print_queue_state()
    assert capsys.readouterr().out.splitlines() == [
        "Job Name  State    Priority",
        "job1      running         1",
        "job3      pending       -10",
    ]


def test_of_a_given_queue_and_states_into_a_file(queue, http):
    from tests.unit.client.fake_queue import client_of

    out = io.StringIO()
    slotq.print_queue_state(client_of(http), states=None, file=out)
    assert [line.split()[0] for line in out.getvalue().splitlines()[1:]] == ["job1", "job3", "job9"]
    out = io.StringIO()
    slotq.print_queue_state(client_of(http), states=["held"], file=out)
    assert out.getvalue() == "Job Name  State  Priority\n"
