"""Opening hours: how windows are written, the moments that follow, what is refused, and what people
see of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from slotq.output.pool_tables import health
from slotq_core.adapters.deployment_settings import parse_pools, pools_text
from slotq_core.adapters.dynamodb.layout.records import read as stored
from slotq_core.adapters.dynamodb.layout.records import write
from slotq_core.errors import InvalidRequest
from slotq_core.model.capacity.schedule import SizeChange, slots_at, slots_left_at
from slotq_core.model.jobs import JobState
from slotq_core.model.pools import Pool, PoolHealth, PoolState
from slotq_core.timestamps import iso
from slotq_core.wire.capacity import opening_hours
from slotq_core.wire.capacity.opening_hours import schedule
from slotq_core.wire.document.contents import read
from slotq_core.wire.pool_definition import defined, settings_of
from slotq_core.wire.submission import parse_submission
from slotq_core.wire.views.pools import pool_view
from tests.queue_world import INSTANCE_TYPE, QueueWorld, pool, request

NIGHT = "mon-fri 20:00-08:00 Europe/Berlin"
SETTINGS = {"slots": 2, "instance_type": INSTANCE_TYPE}
HOUR = 3_600_000
EVERY = "daily 00:00-24:00 UTC"


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def openings(window: str, now: str, *, grace: int = 0) -> list[str]:
    """The first moments after `now`, with a + or - for each."""
    begin = at(now)
    changes = schedule((window,), begin, grace=grace)
    return [
        f"{'-' if change.slots == 0 else '+'}{iso(change.at)[:16]}"
        for change in changes
        if begin < change.at < begin + 4 * 86_400_000
    ]


# --- how they are written ---

WRITTEN = [
    (NIGHT, (NIGHT,)),
    ({"days": ["mon"], "from": "20:00", "to": "08:00", "zone": "UTC"}, ("mon 20:00-08:00 UTC",)),
    ({"days": "sat-mon", "from": 0, "to": 1440, "zone": "UTC"}, ("mon,sat,sun 00:00-24:00 UTC",)),
    (["sat 8:00-9:00 UTC", "fri 08:00-09:00 UTC"], ("fri 08:00-09:00 UTC", "sat 08:00-09:00 UTC")),
    ("mon 1:00-2:00 UTC+tue 1:00-2:00 UTC", ("mon 01:00-02:00 UTC", "tue 01:00-02:00 UTC")),
    ("Daily 01:00 - 02:00 UTC", ("daily 01:00-02:00 UTC",)),
    ("none", ()),
    ([], ()),
    (None, ()),
]


@pytest.mark.parametrize(("value", "kept"), WRITTEN)
def test_windows_are_kept_in_one_form(value: Any, kept: tuple[str, ...]) -> None:
    entries = [value] if isinstance(value, dict) else value
    found = defined("p", {**SETTINGS, "windows": entries})
    assert found.windows == kept
    assert defined("p", settings_of(found)) == found
    assert Pool(**stored(Pool, write(found))) == found
    assert parse_pools(pools_text([found])) == (found,)


def test_a_window_says_itself_as_json() -> None:
    window = opening_hours.read(NIGHT)
    days = ["mon", "tue", "wed", "thu", "fri"]
    told = {"days": days, "from": "20:00", "to": "08:00", "zone": "Europe/Berlin"}
    assert window.as_json() == told
    assert defined("p", {**SETTINGS, "windows": [told]}).windows == (NIGHT,)


def test_the_template_takes_them() -> None:
    text = f"p=2@{INSTANCE_TYPE};windows=mon 01:00-02:00 UTC+tue 01:00-02:00 UTC;state=paused"
    (found,) = parse_pools(text)
    assert found.windows == ("mon 01:00-02:00 UTC", "tue 01:00-02:00 UTC")
    assert found.state is PoolState.PAUSED


REFUSED = [
    ("mon 20:00-08:00", "need a zone"),
    ({"days": ["mon"], "from": "20:00", "to": "08:00"}, "need a zone"),
    ("mon 20:00-08:00 Europe/Nowhere", "unknown zone 'Europe/Nowhere'"),
    ("mon 20:00-08:00 ../../etc/passwd", "unknown zone"),
    ("mon 08:00-08:00 UTC", "must not end when they begin"),
    ("mon 24:00-08:00 UTC", "begin at 00:00 of the next day"),
    ("mon 24:01-25:00 UTC", "need from as a time of the day"),
    ("someday 08:00-09:00 UTC", "have days mon, tue"),
    ("mon-daily 08:00-09:00 UTC", "have days mon, tue"),
    ({"days": [], "from": "08:00", "to": "09:00", "zone": "UTC"}, "need days"),
    ({"days": "mon", "from": True, "to": "09:00", "zone": "UTC"}, "need from"),
    ({"days": "mon", "from": "08:00", "to": "09:00", "zone": "UTC", "on": 1}, "not 'on'"),
    ("at night", "must be windows such as"),
    (["mon 08:00-12:00 UTC", "daily 11:59-13:00 UTC"], "overlap: 'mon 08:00-12:00 UTC' and"),
    (["mon 20:00-08:00 UTC", "tue 07:00-09:00 UTC"], "overlap"),
    (["mon 08:00-12:00 UTC", "mon 09:00-10:00 Europe/Berlin"], "overlap"),
    (["sun 23:00-02:00 UTC", "mon 01:00-03:00 UTC"], "overlap"),
    ([f"mon {n // 60:02d}:{n % 60:02d}-{n // 60:02d}:{n % 60 + 1:02d} UTC" for n in range(29)],
     "at most 28"),
    (7, "must be windows such as"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "said"), REFUSED, ids=lambda part: str(part)[:40])
def test_bad_windows_are_refused_where_they_are_set(value: Any, said: str) -> None:
    entries = [value] if isinstance(value, dict) else value
    with pytest.raises(InvalidRequest) as caught:
        defined("p", {**SETTINGS, "windows": entries})
    assert said in caught.value.message
    assert caught.value.message.startswith("pool 'p': windows ")
    assert caught.value.field == "windows"


def test_windows_that_touch_are_no_overlap() -> None:
    touching = ["mon 08:00-12:00 UTC", "mon 12:00-13:00 UTC", "sun 20:00-08:00 UTC"]
    assert len(defined("p", {**SETTINGS, "windows": touching}).windows) == 3


def test_a_document_takes_both_forms_and_names_the_fault() -> None:
    form = {"days": "mon-fri", "from": "20:00", "to": "08:00", "zone": "Europe/Berlin"}
    entry = {"name": "p", "capacity": 2, "instance_type": INSTANCE_TYPE}
    for value in ([form], [NIGHT], NIGHT):
        assert read({"pools": [{**entry, "windows": value}]}).pools[0].windows == (NIGHT,)
    with pytest.raises(InvalidRequest, match="unknown zone 'Mars'"):
        read({"pools": [{**entry, "windows": ["mon 08:00-09:00 Mars"]}]})


def test_a_pool_with_hours_has_no_nodes() -> None:
    with pytest.raises(InvalidRequest, match="a pool with windows has no nodes"):
        defined("p", {"slots": 1, "instance_type": "ml.p5.48xlarge", "nodes": True,
                      "windows": EVERY})  # fmt: skip
    entry = {"name": "p", "capacity": 1, "instance_type": "ml.p5.48xlarge", "nodes": True}
    with pytest.raises(InvalidRequest, match="a pool with windows has no nodes"):
        read({"pools": [{**entry, "windows": [EVERY]}]})


# --- the moments that follow ---


def test_a_window_over_midnight_belongs_to_its_first_day() -> None:
    assert openings("fri 22:00-06:00 UTC", "2026-11-27T00:00") == [
        "+2026-11-27T22:00", "-2026-11-28T06:00",
    ]  # fmt: skip


def test_a_pool_that_is_always_open_never_closes() -> None:
    assert openings(EVERY, "2026-11-27T00:00") == []
    assert slots_at(schedule((EVERY,), at("2026-11-27T12:00")), at("2026-11-27T12:00"), of=4) == 4


def test_clocks_that_go_back_make_a_night_longer() -> None:
    """25 October 2026, 03:00 in Berlin is 02:00 again."""
    assert openings("sat 20:00-08:00 Europe/Berlin", "2026-10-24T00:00") == [
        "+2026-10-24T18:00", "-2026-10-25T07:00",
    ]  # fmt: skip


def test_clocks_that_go_forward_make_a_night_shorter() -> None:
    """29 March 2026, 02:00 in Berlin is 03:00."""
    assert openings("sat 20:00-08:00 Europe/Berlin", "2026-03-28T00:00") == [
        "+2026-03-28T19:00", "-2026-03-29T06:00",
    ]  # fmt: skip


def test_a_skipped_time_is_the_moment_an_hour_later() -> None:
    assert openings("sun 02:30-05:00 Europe/Berlin", "2026-03-28T12:00") == [
        "+2026-03-29T01:30", "-2026-03-29T03:00",
    ]  # fmt: skip
    assert openings("sun 02:30-03:15 Europe/Berlin", "2026-03-28T12:00") == []


def test_the_grace_comes_before_the_end_alone() -> None:
    moments = openings("fri 10:00-12:00 UTC", "2026-11-27T00:00", grace=600_000)
    assert moments == ["+2026-11-27T10:00", "-2026-11-27T11:50"]
    assert openings("fri 10:00-10:10 UTC", "2026-11-27T00:00", grace=600_000) == []


def test_slots_of_jobs_that_do_not_save_last_through_the_grace() -> None:
    changes = (
        SizeChange(at=0),
        SizeChange(at=100, slots=1, grace=50),
        SizeChange(at=300, slots=3),
    )
    offered = [(slots_at(changes, t, of=4), slots_left_at(changes, t, of=4))
               for t in (0, 99, 100, 149, 150, 299, 300)]  # fmt: skip
    assert offered == [(4, 4), (4, 4), (1, 4), (1, 4), (1, 1), (1, 1), (3, 3)]


def test_the_moments_reach_beyond_the_longest_runtime() -> None:
    now = at("2026-11-27T23:59")
    last = schedule(("mon 08:00-09:00 UTC",), now)[-1]
    assert last.at > now + 28 * 86_400_000


def test_what_the_account_allows_and_the_hours_both_bound_the_size() -> None:
    learned = PoolHealth(learned=2, learned_until=10**15)
    changes = (SizeChange(at=0, slots=3), SizeChange(at=100, slots=1), SizeChange(at=200, slots=0))
    found = pool(slots=4, schedule=changes, health=learned)
    assert [found.size(t).slots for t in (0, 100, 200)] == [2, 1, 0]
    assert [pool(slots=4, schedule=changes).size(t).slots for t in (0, 100, 200)] == [3, 1, 0]
    drained = pool(slots=4, schedule=changes, state=PoolState.DRAINED)
    assert not drained.size(0)


# --- in a queue; START is Monday, 21 September 2026, 14:13:20 UTC ---


def world(*windows: str, slots: int = 1, **fields: Any) -> QueueWorld:
    return QueueWorld(pool(slots=slots, windows=windows, **fields), runtime=10 * HOUR)


def submit(queue: QueueWorld, name: str, *, longest: int = 86_400, **more: Any) -> Any:
    body = request(name, **more)
    body["StoppingCondition"] = {"MaxRuntimeInSeconds": longest}
    submission, parsed = parse_submission(body)
    return queue.manager.submissions.submit(submission, parsed, submitter="ann")


SAVED = "s3://bucket/saved"


def test_why_names_the_moment_at_which_the_pool_opens() -> None:
    queue = world("mon 20:00-22:00 Europe/Berlin")
    submit(queue, "job", checkpoints=SAVED)
    status = queue.manager.jobs.status("job")
    assert status.reason is not None and status.outlook is not None
    assert status.reason.text() == "pool p opens at 20:00 Europe/Berlin, 21 Sep"
    (opens,) = status.outlook.times
    assert iso(opens.at) == "2026-09-21T18:00:00.000Z"
    assert "pool p changes its size" in opens.sentence()


def test_why_says_that_the_job_may_run_for_too_long() -> None:
    queue = world("mon 14:00-16:00 UTC")
    submit(queue, "fixed", longest=7_200, preemptible="false", checkpoints=SAVED)
    submit(queue, "loses", longest=7_200)
    reasons = {name: queue.manager.jobs.status(name).reason for name in ("fixed", "loses")}
    assert {name: why.text() for name, why in reasons.items() if why} == {
        "fixed": "pool p closes at 16:00 UTC, 21 Sep; the job may run for 2 h "
        "(MaxRuntimeInSeconds) and is not preemptible",
        "loses": "pool p closes at 16:00 UTC, 21 Sep; the job may run for 2 h "
        "(MaxRuntimeInSeconds) and has no checkpoints",
    }


def test_the_runtime_counts_exactly() -> None:
    """14:13:20 to 16:00 are 6,400 s."""
    queue = world("mon 14:00-16:00 UTC", slots=2)
    submit(queue, "fits", longest=6_400, preemptible="false")
    submit(queue, "does-not", longest=6_401, preemptible="false")
    queue.manager.passes.run()
    assert queue.job("fits").state is not JobState.PENDING
    assert queue.job("does-not").state is JobState.PENDING


def test_the_pass_wakes_when_the_pool_opens_and_closes() -> None:
    queue = world("mon 15:00-16:00 UTC", suspend_grace=60_000)
    submit(queue, "job", checkpoints=SAVED)
    assert queue.manager.passes.run().wake_at == at("2026-09-21T15:00")
    queue.clock.set(at("2026-09-21T15:00"))
    queue.manager.passes.run()
    queue.deliver()
    assert queue.manager.passes.run().wake_at == at("2026-09-21T15:59")
    queue.clock.set(at("2026-09-21T15:59"))
    queue.manager.passes.run()
    job = queue.job("job")
    assert job.state is JobState.STOPPING
    assert job.message == "suspended because of the times of pool p"
    assert job.attempt and job.attempt.stop
    assert job.attempt.stop.grace_until == at("2026-09-21T16:00")


def test_a_job_that_waits_in_vain_wakes_no_pass() -> None:
    queue = world("mon 15:00-16:00 UTC")
    submit(queue, "job", preemptible="false")
    assert queue.manager.passes.run().wake_at is None


def test_hours_that_change_stop_what_must_not_be_interrupted_last() -> None:
    queue = world(EVERY, slots=2, suspend_grace=60_000)
    submit(queue, "fixed", preemptible="false")
    submit(queue, "saves", checkpoints=SAVED)
    queue.deliver()
    queue.manager.configuration.set_pool("p", {"windows": ["mon 14:00-15:00 UTC"]}, by="ann")
    queue.clock.set(at("2026-09-21T14:59"))
    queue.manager.passes.run()
    assert [queue.job(name).state for name in ("fixed", "saves")] == [
        JobState.RUNNING, JobState.STOPPING,
    ]  # fmt: skip
    queue.clock.set(at("2026-09-21T15:00"))
    queue.manager.passes.run()
    assert queue.job("fixed").state is JobState.STOPPING


def test_people_see_when_a_pool_opens_and_closes() -> None:
    queue = world("mon 20:00-22:00 Europe/Berlin", "mon 16:00-17:00 Europe/Berlin")
    said = []
    for moment in ("2026-09-21T14:14", "2026-09-21T15:30", "2026-09-21T18:30"):
        queue.clock.set(at(moment))
        (found,) = queue.manager.overview.pools()
        view = pool_view(found.pool, now=0, size=found.size, used=found.used, hours=found.hours)
        said.append((view.size["slots"], health(view)))
    assert said == [
        (1, "open until 17:00 Europe/Berlin, 21 Sep"),
        (0, "opens at 20:00 Europe/Berlin, 21 Sep"),
        (1, "open until 22:00 Europe/Berlin, 21 Sep"),
    ]
