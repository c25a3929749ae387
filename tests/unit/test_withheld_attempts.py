"""What of an attempt is told to whom."""

from __future__ import annotations

import pytest

from slotq_core.model.attempts import Beneficiary
from slotq_core.privacy.withholding import use_as_seen
from slotq_core.usage.attempt_use import AttemptUse

USE = AttemptUse(
    job="victim",
    number=2,
    project="vision",
    submitter="ada",
    workload="training",
    pool="p5",
    instance_type="ml.p5.48xlarge",
    slots=1,
    admitted_at=1,
    ended_at=2,
    lost_since=1,
    beneficiary=Beneficiary(project="speech", submitter="bob", workload="interactive"),
    evicted_for="urgent",
    outcome="evicted",
)


@pytest.mark.parametrize(
    ("seen", "job", "submitter", "evicted_for", "for_whom"),
    [
        ({"vision", "speech"}, "victim", "ada", "urgent", "bob"),
        ({"vision"}, "victim", "ada", "", ""),
        ({"speech"}, "", "", "urgent", "bob"),
        (set(), "", "", "", ""),
    ],
)
def test_each_side_of_an_eviction_is_named_to_those_who_may_see_it(
    seen: set[str], job: str, submitter: str, evicted_for: str, for_whom: str
) -> None:
    told = use_as_seen(USE, lambda project, _: project in seen)
    assert told.beneficiary
    assert (told.job, told.submitter) == (job, submitter)
    assert (told.evicted_for, told.beneficiary.submitter) == (evicted_for, for_whom)
    assert (told.project, told.beneficiary.project) == ("vision", "speech")
    assert (told.slots, told.admitted_at, told.ended_at, told.outcome) == (1, 1, 2, "evicted")


def test_how_a_withheld_attempt_ended_is_withheld_unless_it_was_evicted() -> None:
    failed = AttemptUse(
        job="theirs",
        number=1,
        workload="training",
        pool="p5",
        instance_type="ml.x",
        slots=1,
        admitted_at=1,
        ended_at=2,
        outcome="failed",
    )
    assert use_as_seen(failed, lambda *_: False).outcome == ""
    assert use_as_seen(failed, lambda *_: True) is failed
