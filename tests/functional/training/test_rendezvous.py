"""Members of a group find each other, as real processes."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from tests.functional.training.processes import Container

SCRIPT = """
import json, os, sys, time
import slotq_training as slotq

words = json.loads(sys.argv[1])
try:
    peers = slotq.rendezvous(**words)
except (TimeoutError, RuntimeError) as error:
    print(type(error).__name__, error, flush=True)
    sys.exit(1)
print(json.dumps({"me": peers.me, "peers": peers, "clients": peers.by_role("client")}), flush=True)
time.sleep(float(os.environ.get("LINGER", "6")))
"""
FIELDS = ("name", "role", "host", "port", "attempt")


@pytest.fixture
def start(tmp_path):
    """Starts a member. All meet in one folder, as they do below a prefix in S3."""
    running = []

    def begin(site, *, number=1, sites=("a", "b"), linger="6", python=sys.executable, **words):
        job = f"fed-{site}" + (f"-qstamp-{number}-abcdef" if number > 1 else "")
        container = Container(tmp_path / job, job=job)
        process = container.start(
            SCRIPT,
            json.dumps(words),
            python=python,
            SLOTQ_GROUP="fed",
            SLOTQ_SITE=site,
            SLOTQ_ROLE="server" if site == "server" else "client",
            SLOTQ_SITES=json.dumps(sites),
            SLOTQ_RENDEZVOUS=str(tmp_path / "meet"),
            LINGER=linger,
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def told(process):
    return json.loads(process.stdout.readline())


def names(process):
    return sorted(told(process)["peers"])


def test_all_find_each_other_by_name_and_role(start):
    ports = {"server": 7000, "a": 0, "b": 0}
    members = {site: start(site, port=port) for site, port in ports.items()}
    found = {site: told(process) for site, process in members.items()}
    assert found["a"]["peers"]["server"] == ["server", "server", "127.0.0.1", 7000, 1]
    assert sorted(found["a"]["peers"]) == ["b", "server"]
    assert sorted(found["server"]["peers"]) == ["a", "b"]
    clients = [dict(zip(FIELDS, each, strict=True)) for each in found["server"]["clients"]]
    assert [each["name"] for each in clients] == ["a", "b"]
    assert found["b"]["me"] == ["b", "client", "127.0.0.1", 0, 1]


def test_what_an_earlier_attempt_has_left_is_never_taken_for_the_present_one(start, tmp_path):
    first = start("server", port=7000, minimum=0, timeout=0, linger="600")
    told(first)
    assert (tmp_path / "meet/server/0001.json").is_file()
    first.kill()
    first.wait()
    client = start("a", names=["server"])
    time.sleep(3)
    assert client.poll() is None, "it took the dead server for a living one"
    start("server", number=2, port=7001, names=["a"])
    assert told(client)["peers"]["server"] == ["server", "server", "127.0.0.1", 7001, 2]


def test_a_late_member_finds_those_that_have_met_before(start):
    early = [start("server", names=["a"], linger="30"), start("a", names=["server"], linger="30")]
    for process in early:
        told(process)
    assert names(start("b")) == ["a", "server"]


def test_those_that_are_there_are_enough_when_the_time_is_over(start):
    server = start("server", minimum=1, timeout=5)
    start("a", names=["server"], linger="30")
    assert names(server) == ["a"]


@pytest.mark.parametrize("minimum", [None, 2])
def test_a_member_that_never_comes_is_named(start, minimum):
    server = start("server", minimum=minimum, timeout=4)
    start("a", names=["server"], linger="30")
    assert server.stdout.readline().startswith("TimeoutError after 4 s these are missing: b")


def test_outside_a_group_there_is_nobody_to_meet(tmp_path):
    code, out, _ = Container(tmp_path).run(SCRIPT, "{}")
    assert (code, out.split()[0]) == (1, "RuntimeError")
    assert "belongs to no group" in out


def test_it_runs_on_the_oldest_python(start):
    oldest = sorted(Path.home().glob(".pyenv/versions/3.8*/bin/python"))
    if not oldest:
        pytest.skip("no Python 3.8 here")
    server, client = start("server", python=oldest[0], names=["a"]), start("a", names=["server"])
    assert (names(server), names(client)) == (["a"], ["server"])
