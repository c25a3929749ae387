"""Where a group's members meet: below a prefix of S3 as in a folder."""

from __future__ import annotations

import json
import threading

import boto3
import pytest
from moto import mock_aws

import slotq_training
from slotq_training import _Entries

BUCKET = "groups"


@pytest.fixture(params=["S3", "folder"])
def entries(request, tmp_path, monkeypatch):
    if request.param == "folder":
        yield _Entries(str(tmp_path / "meet"))
        return
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setattr(slotq_training, "_clients", {})
    with mock_aws():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=BUCKET)
        yield _Entries(f"s3://{BUCKET}/out/ring")


def test_an_entry_is_read_as_it_was_written_and_each_write_shows(entries):
    assert entries.versions() == {}
    seen = set()
    for beat in range(3):
        entries.write("ring-1/0001.json", json.dumps({"beat": beat}).encode())
        seen.add(entries.versions()["ring-1/0001.json"])
        assert entries.read("ring-1/0001.json") == {"beat": beat}
    assert len(seen) == 3


def test_what_is_not_there_is_made_once(entries):
    assert entries.replace("_slotq/generation.json", b'{"n": 1}', None)
    assert not entries.replace("_slotq/generation.json", b'{"n": 2}', None)
    assert entries.read("_slotq/generation.json") == {"n": 1}


def test_what_has_been_replaced_meanwhile_is_not_replaced(entries):
    assert entries.replace("_slotq/generation.json", b'{"n": 1}', None)
    first = entries.versions()["_slotq/generation.json"]
    assert entries.replace("_slotq/generation.json", b'{"n": 2}', first)
    assert not entries.replace("_slotq/generation.json", b'{"n": 3}', first)
    assert entries.read("_slotq/generation.json") == {"n": 2}
    second = entries.versions()["_slotq/generation.json"]
    assert entries.replace("_slotq/generation.json", b'{"n": 4}', second)


def test_what_is_gone_is_not_replaced(entries):
    assert not entries.replace("_slotq/generation.json", b"{}", '"0123456789abcdef"')
    assert entries.versions() == {}


def test_a_condition_holds_for_its_own_write_only(entries):
    entries.write("_slotq/generation.json", b"{}")
    assert not entries.replace("_slotq/generation.json", b"{}", None)
    entries.write("ring-1/0001.json", b"1")
    entries.write("ring-1/0001.json", b"2")
    version = entries.versions()["_slotq/generation.json"]
    assert entries.replace("_slotq/generation.json", b"{}", version)


def test_of_many_who_write_at_once_in_a_folder_one_does(tmp_path):
    entries, done, wins = _Entries(str(tmp_path)), threading.Barrier(8), []

    def write(number):
        done.wait()
        wins.append(entries.replace("_slotq/generation.json", b"%d" % number, None))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(wins) == [False] * 7 + [True]
