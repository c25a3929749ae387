"""`slotq pools`: output, requests and exit codes."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from slotq.cli.app import App
from slotq.cli.exits import ExitCode
from slotq.cli.main import cli
from slotq_core.model.pools import FailedNodes
from slotq_core.timestamps import from_iso
from slotq_core.wire.record import ChangesView
from slotq_core.wire.views.pools import PoolsView, PoolView
from tests.unit.client.fake_queue import FakeAnswer, FakeQueue, client_of, pool_view


@pytest.fixture
def queue():
    queue = FakeQueue()
    queue.pools = [pool_view("p5", used=1, foreign=2, count_foreign=True), pool_view("p4")]
    return queue


@pytest.fixture
def slotq(http):
    def run(*args):
        return CliRunner().invoke(cli, args, obj=App(connect=lambda endpoint: client_of(http)))

    return run


def row(result, name):
    (line,) = [line for line in result.stdout.splitlines() if line.startswith(name)]
    return line.split()


@pytest.mark.parametrize("words", [("pools",), ("pools", "list")])
def test_pools_are_shown_with_their_health(slotq, queue, words):
    health = {
        "errors": 2,
        "not_before": from_iso("2026-11-20T10:31:00.000Z"),
        "learned": 1,
        "learned_until": from_iso("2026-11-20T11:00:00.000Z"),
        "message": "ResourceLimitExceeded",
    }
    queue.pools[0] = pool_view("p5", used=1, health=health)
    head, first, second = slotq(*words).output.splitlines()
    titles = ["POOL", "INSTANCE", "TYPE", "STATE", "SLOTS", "USABLE", "USED", "FOREIGN", "HEALTH"]
    assert head.split() == titles
    assert first.split()[:7] == ["p5", "ml.p5.48xlarge", "active", "4", "1", "1", "0"]
    assert first.rstrip().endswith(
        "the account allows 1 until 11-20 11:00:00; 2 capacity errors, next try at 11-20 "
        "10:31:00: ResourceLimitExceeded"
    )
    assert second.split()[-1] == "ok"
    said = PoolsView.model_validate_json(slotq(*words, "--json").output)
    assert said.pools == queue.pools
    assert slotq("--json", *words).output == slotq(*words, "--json").output


def test_images_that_could_not_be_nodes_are_shown(slotq, queue):
    at = from_iso("2026-11-20T10:31:00.000Z")
    failed = (
        FailedNodes(tenant="t", image="repo:1", since=0, not_before=at, message="no\nboto3"),
        FailedNodes(tenant="0123abcd", since=0, not_before=at),
    )
    queue.pools[0] = pool_view("p5", health={"failed_nodes": failed})
    _, first, _ = slotq("pools").output.splitlines()
    assert first.rstrip().endswith(
        "no node with image repo:1 got ready, next try at 11-20 10:31:00: no boto3; "
        "no node of tenant 0123abcd got ready, next try at 11-20 10:31:00"
    )


def test_how_long_scripts_are_asked_to_release_their_slots_is_shown_where_a_pool_asks(slotq, queue):
    assert "GRACE" not in slotq("pools").output
    queue.pools[0] = pool_view("p5", suspend_grace=120)
    head, first, second = slotq("pools").output.splitlines()
    assert "SUSPEND GRACE" in head
    assert first.split()[-3:] == ["120", "s", "ok"]
    assert second.split()[-2:] == ["none", "ok"]


def test_show_prints_every_setting(slotq, queue):
    output = slotq("pools", "show", "p5").output
    for key in queue.pools[0].settings.model_dump():
        assert f"\n{key} " in output
    assert "1 of 2 slots" in output
    shown = slotq("pools", "show", "p5", "--json").output
    assert PoolView.model_validate_json(shown) == queue.pools[0]
    result = slotq("pools", "show", "p6")
    assert (result.exit_code, "the pools are p5, p4" in result.stderr) == (ExitCode.NO, True)


def test_set_sends_only_the_named_settings(slotq, http):
    result = slotq("pools", "set", "p4", "--slots", "8", "--reserve-after", "none")
    assert http.last_body() == {"slots": 8, "reserve_after": None}
    assert (http.sent[-1].method, row(result, "p4")[3]) == ("PATCH", "8")
    slotq(
        *("pools", "set", "p4", "--time-slice", "none", "--no-consolidate", "--count-foreign"),
        *("--resource", "gpus=16", "--resource", "licences=2", "--state", "paused"),
        *("--property", "mem_per_gpu_in_GiB=16", "--property", "nvlink=1", "--revision", "1"),
    )
    assert http.last_body() == {
        "time_slice": None,
        "consolidate": False,
        "count_foreign": True,
        "resources": {"gpus": 16, "licences": 2},
        "properties": {"mem_per_gpu_in_GiB": 16, "nvlink": 1},
        "state": "paused",
        "revision": 1,
    }
    slotq("pools", "set", "p4", "--suspend-grace", "30")
    assert http.last_body() == {"suspend_grace": 30}
    slotq("pools", "set", "p4", "--stall-after", "1800", "--on-stall", "evict", "--read-reports")
    assert http.last_body() == {"stall_after": 1800, "on_stall": "evict", "read_reports": True}
    slotq("pools", "set", "p4", "--forget-limit")
    assert http.last_body() == {"forget_limit": True}
    slotq("pools", "set", "p4", "--no-open")
    assert http.last_body() == {"open": False}
    slotq("pools", "set", "p4", "--no-resources")
    assert http.last_body() == {"resources": {}}
    slotq("pools", "set", "p4", "--no-properties")
    assert http.last_body() == {"properties": {}}
    slotq("pools", "set", "new", "--slots", "1", "--instance-type", "ml.g5.xlarge")
    assert http.sent[-1].url.endswith("/pools/new")


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (("resize", "p5", "6"), {"slots": 6}),
        (("resize", "p5", "0"), {"slots": 0}),
        (("resize", "p5", "+2"), {"slots": 6, "revision": 0}),
        (("resize", "p5", "-3"), {"slots": 1, "revision": 0}),
        (("pause", "p5"), {"state": "paused"}),
        (("drain", "p5"), {"state": "drained"}),
        (("resume", "p5"), {"state": "active"}),
    ],
)
def test_short_commands_change_settings(slotq, http, words, sent):
    result = slotq("pools", *words, "--json")
    assert (result.exit_code, http.last_body()) == (ExitCode.OK, sent)
    assert PoolsView.model_validate_json(result.stdout).pools


@pytest.mark.parametrize(
    "words",
    [
        ("set", "p5"),
        ("set", "p5", "--slots", "-1"),
        ("set", "p5", "--slots", "many"),
        ("set", "p5", "--time-slice", "1.5"),
        ("set", "p5", "--resource", "gpus"),
        ("set", "p5", "--resource", "gpus=-1"),
        ("set", "p5", "--property", "mem"),
        ("set", "p5", "--state", "open"),
        ("set", "p5", "--colour", "red"),
        ("resize", "p5", "more"),
        ("resize", "p5", "--2"),
        ("resize", "p5", "-5"),
        ("resize", "p5"),
        ("history", "--limit", "0"),
        ("fly",),
    ],
)
def test_a_wrong_command_line_changes_nothing(slotq, queue, words):
    assert slotq("pools", *words).exit_code == ExitCode.USAGE
    assert queue.changes == []


def test_what_the_queue_warns_of_is_shown(slotq, queue):
    queue.warnings_of_pools = ["pool p5: keep_warm is 7,200 s"]
    result = slotq("pools", "set", "p5", "--keep-warm", "7200")
    assert "warning: pool p5: keep_warm is 7,200 s" in result.stderr


def test_a_pool_below_its_use_is_reported(slotq):
    result = slotq("pools", "resize", "p5", "0")
    assert "pool p5 now has 1 slot fewer than are in use: nothing is stopped" in result.stderr
    assert "in use" not in slotq("pools", "resize", "p4", "0").stderr
    assert slotq("pools", "resize", "p5", "0", "--json").stderr == ""


def test_a_drained_pool_is_draining_while_jobs_run_there(slotq):
    assert row(slotq("pools", "drain", "p5"), "p5")[2] == "draining"
    assert row(slotq("pools", "drain", "p4"), "p4")[2] == "drained"
    assert row(slotq("pools"), "p4")[4] == "0"


def test_only_a_pool_without_jobs_is_removed(slotq, queue):
    assert slotq("pools", "remove", "p5").exit_code == ExitCode.NO
    result = slotq("pools", "remove", "p4", "--revision", "0")
    assert (result.exit_code, [pool.name for pool in queue.pools]) == (ExitCode.OK, ["p5"])


def test_an_outdated_change_is_refused(slotq, queue):
    slotq("pools", "pause", "p4")
    result = slotq("pools", "set", "p5", "--slots", "9", "--revision", "0", "--json")
    assert result.exit_code == ExitCode.NO
    assert json.loads(result.stderr)["code"] == "outdated"
    assert queue.pools[0].settings.slots == 4


def test_the_history_names_who_changed_what(slotq, queue):
    slotq("pools", "set", "p4", "--slots", "8", "--reserve-after", "60")
    slotq("pools", "set", "new", "--slots", "1", "--instance-type", "ml.g5.xlarge")
    slotq("pools", "remove", "new")
    lines = slotq("pools", "history").output.splitlines()
    assert [line.split()[0] for line in lines] == ["REVISION", "3", "2", "1"]
    assert "assumed-role/Operator/grace" in lines[1]
    assert "removed; it had 1 slot of ml.g5.xlarge" in lines[1]
    assert "new: 1 slot of ml.g5.xlarge" in lines[2]
    assert "slots 4 → 8, reserve_after none → 60" in lines[3]
    said = ChangesView.model_validate_json(
        slotq("pools", "history", "--limit", "2", "--json").output
    )
    assert said.changes == queue.changes[:0:-1]


def test_only_operators_may_change_pools(slotq, http):
    http.troubles = [
        FakeAnswer(403, '{"Message": "User: ada is not authorized to perform: execute-api:Invoke"}')
    ]
    result = slotq("pools", "drain", "p5")
    assert (result.exit_code, "execute-api:Invoke" in result.stderr) == (ExitCode.NOT_ALLOWED, True)
