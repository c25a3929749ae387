"""FLARE's scheduler settings in the configuration, through the real handler and the CLI."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import yaml
from click.testing import Result

from tests.functional import real_http
from tests.functional.account import NOW, Account
from tests.functional.test_config import POOL, put

ONE_SLOT = {**POOL, "capacity": 1}
FLARE = {"max_schedule_count": 4, "min_schedule_interval": 10, "max_schedule_interval": 30}
FIXED = {"StoppingCondition": {"MaxRuntimeInSeconds": 3600}}


def settings(**scheduler: Any) -> dict[str, Any]:
    return {"pools": [ONE_SLOT], "scheduler": scheduler or FLARE}


def submit(account: Account, name: str) -> None:
    account.submit(name)
    account.settle()


def pass_at(account: Account, seconds: float) -> None:
    """Run a pass so long after the beginning."""
    account.clock.set(NOW + round(seconds * 1000))
    account.send("tick")
    account.settle()


def after_pass_at(account: Account, seconds: float) -> tuple[int, float]:
    """The failed attempts of `waits` and the time (s) of the next, after a pass at that time."""
    pass_at(account, seconds)
    numbers = account.job("waits")["reason"]["numbers"]
    return numbers["attempts"], (numbers["until"] - NOW) / 1000


@pytest.fixture
def slotq(account: Account) -> Callable[..., Result]:
    return partial(real_http.slotq, account)


def test_the_settings_are_applied_shown_and_recorded(account: Account):
    status, done = account.call(put(settings()))
    assert status == 200
    (change,) = (each for each in done["changes"] if each["section"] == "scheduler")
    kept = account.call("get-configuration")[1]["configuration"]["scheduler"]
    assert kept == {"max_schedule_count": 4, "max_schedule_interval": 30}, "10 s is the default"
    assert (change["before"], change["after"]) == (None, kept)
    recorded = account.call("list-changes")[1]["changes"][0]["entries"]
    assert change in recorded
    account.call(put({"pools": [ONE_SLOT], "scheduler": {}}))
    assert "scheduler" not in account.call("get-configuration")[1]["configuration"]


@pytest.mark.parametrize(
    ("scheduler", "field", "words"),
    [
        ({"max_jobs": 0}, "max_jobs", "a whole number from 1"),
        ({"max_schedule_count": 1.5}, "max_schedule_count", "a whole number from 1"),
        ({"min_schedule_interval": 0}, "min_schedule_interval", "more than 0 seconds"),
        ({"min_schedule_interval": 601}, "max_schedule_interval", "at least the min_schedule_int"),
        ({"max_job": 1}, "max_job", "did you mean 'max_jobs'?"),
    ],
)
def test_wrong_settings_are_refused(account: Account, scheduler: Any, field: str, words: str):
    status, error = account.call(put({"pools": [ONE_SLOT], "scheduler": scheduler}))
    assert (status, error["faults"][0]["path"]) == (400, f"scheduler.{field}")
    assert words in error["message"]


def test_the_series_to_the_second_until_the_job_is_given_up(account: Account):
    """Attempts at 0, 10, 30 and 60 s: 10 s, doubled, and at most 30 s. Never early."""
    account.call(put(settings()))
    submit(account, "runs")
    submit(account, "waits")
    assert after_pass_at(account, 0) == (1, 10)
    assert after_pass_at(account, 9.999) == (1, 10)
    assert after_pass_at(account, 10) == (2, 30)
    assert after_pass_at(account, 29.999) == (2, 30)
    assert after_pass_at(account, 30) == (3, 60)
    assert after_pass_at(account, 59.999) == (3, 60)
    pass_at(account, 60)
    told = account.job("waits")
    assert (told["state"], told["cause"]) == ("failed", "cannot_schedule")
    assert told["message"].startswith("given up after attempt 4 of 4 to start it: needs 1 slot")


def test_flares_own_series_to_the_second(account: Account):
    """FLARE's defaults: ten attempts, 10 s apart, then 20 s, doubled up to 600 s."""
    flare = {"max_schedule_count": 10, "min_schedule_interval": 10, "max_schedule_interval": 600}
    account.call(put(settings(**flare)))
    submit(account, "runs")
    submit(account, "waits")
    at = [0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430]
    for number, (moment, then) in enumerate(pairwise(at), start=1):
        assert after_pass_at(account, moment) == (number, then)
        assert after_pass_at(account, then - 0.001) == (number, then)
    pass_at(account, at[-1])
    assert account.job("waits")["message"].startswith("given up after attempt 10 of 10")


def test_freed_slots_do_not_shorten_the_series_and_a_tick_may_be_late(account: Account):
    account.call(put(settings()))
    submit(account, "runs")
    submit(account, "waits")
    account.completes("runs")
    assert account.state("waits") == "backoff"
    pass_at(account, 58)
    assert account.state("waits") != "backoff"
    assert account.job("waits")["attempts_begun"] == 1


def test_max_jobs_alone_gives_nobody_up(account: Account):
    account.call(put({"pools": [{**POOL, "capacity": 9}], "scheduler": {"max_jobs": 1}}))
    submit(account, "runs")
    submit(account, "waits")
    for seconds in (60, 600, 3000):
        pass_at(account, seconds)
    told = account.job("waits")
    assert (told["state"], told["reason"]["code"]) == ("pending", "job_limit_reached")


def test_show_and_why_tell_the_attempts_and_the_next_time(account: Account, slotq: Any):
    account.call(put(settings()))
    submit(account, "runs")
    submit(account, "waits")
    shown = " ".join(slotq("show", "waits").stdout.split())
    assert "is tried again at 2026-11-20T10:30:10.000Z: attempt 1 of 4 to start it" in shown
    told = slotq("why", "waits").stdout
    assert "attempt 1 of 4 to start it: needs 1 slot" in told
    assert "times" in told


def test_apply_warns_of_attempts_that_end_before_the_longest_job(
    slotq: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)

    def apply(document: Any, *words: str) -> str:
        (tmp_path / "queue.yaml").write_text(yaml.safe_dump(document))
        return str(slotq("config", "apply", "queue.yaml", *words).stderr)

    for words in (["--dry-run"], []):
        told = apply(settings(), *words)
        assert "warning: scheduler: min_schedule_interval x max_schedule_count is 40 s" in told
        assert "may run for 24 h (pools: main)" in told
        assert "given up 60 s after its first attempt; max_schedule_count: 8,640" in told
    assert "warning" not in apply(settings(max_schedule_count=8640))
    short = [{"name": "short", "requests": {"fixed": FIXED}}]
    document = {**settings(max_schedule_count=360), "projects": short}
    assert "warning" not in apply(document), "its jobs run for an hour at most"
    document["scheduler"] = {"max_schedule_count": 359}
    assert "may run for 60 min" in apply(document)
    assert "warning" not in apply({"pools": [ONE_SLOT], "scheduler": {"max_jobs": 1}})


def test_the_answer_carries_the_warnings(account: Account):
    done = account.call(put(settings()))[1]
    assert len(done["warnings"]) == 1
    assert account.call(put({"pools": [ONE_SLOT]}))[1]["warnings"] == []
