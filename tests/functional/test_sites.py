"""Federated jobs over many sites, through the real handler: what NVIDIA FLARE's document describes
of check, reserve, cancel and allocate, and of jobs that run where they should not."""

import json
from typing import Any

import pytest

from tests.functional.account import HOUR, Account, sample
from tests.functional.test_config import POOL, put

SITES = [f"site-{number}" for number in range(1, 9)]
WITH_GPUS = {**POOL, "instance_type": "ml.p6e-gb200.36xlarge", "capacity": {"slots": 9, "gpus": 2}}
"""SlotQ does not know the type, so a site says how many GPUs it has. Jobs ask for them in FLARE's
word, `num_gpus`."""
MINUTE = 60_000
MEMBER = json.loads(sample("add-job")["body"])


@pytest.fixture(autouse=True)
def sites(account: Account) -> None:
    status, told = account.call(put({"pools": [{**WITH_GPUS, "name": name} for name in SITES]}))
    assert status == 200, told


def submit(account: Account, group: str, **rules: Any) -> None:
    """A job at each site that takes one GPU there."""
    members = [
        {
            **MEMBER,
            "TrainingJobName": f"{group}-{site}",
            "Tags": [
                {"Key": "slotq:pools", "Value": site},
                {"Key": "slotq:demand", "Value": "num_gpus=1"},
            ],
        }
        for site in SITES
    ]
    body = {"name": group, "gang": rules, "members": members}
    status, told = account.call({**sample("submit-gang"), "body": json.dumps(body)})
    assert status == 202, told
    account.settle()


def states(account: Account, group: str) -> dict[str, int]:
    told = account.call({**sample("get-group"), "path": f"/groups/{group}"})[1]
    found: dict[str, int] = told["states"]
    return found


def gpus(account: Account) -> set[int]:
    """How many GPUs are in use at the sites, by their ledgers: one number if it is everywhere the
    same."""
    pools = account.call(sample("list-pools"))[1]["pools"]
    assert [pool["name"] for pool in pools] == SITES
    return {pool["used"].get("gpus", 0) for pool in pools}


def claims(account: Account) -> list[str]:
    return [item["pk"]["S"] for item in account.items() if "claim" in item]


def test_eight_sites_with_two_gpus_run_two_of_five_gangs_of_eight(account: Account):
    for group in "abcde":
        submit(account, group)
    assert [states(account, group) for group in "abcde"] == [
        {"running": 8}, {"running": 8}, {"pending": 8}, {"pending": 8}, {"pending": 8}
    ]  # fmt: skip
    assert (gpus(account), claims(account)) == ({2}, [])
    begun = {job.name for job in account.plane.jobs()}
    assert begun == {f"{group}-{site}" for group in "ab" for site in SITES}
    for site in SITES[:7]:
        account.completes(f"a-{site}")
        assert (states(account, "c"), claims(account)) == ({"pending": 8}, [])
    assert gpus(account) == {1, 2}, "the one site that is left keeps c from starting"
    account.completes("a-site-8")
    assert (states(account, "c"), states(account, "d")) == ({"running": 8}, {"pending": 8})
    assert (gpus(account), claims(account)) == ({2}, [])
    for _ in range(3):
        account.clock.set(account.clock.now() + HOUR)
        account.settle()
    assert [states(account, group) for group in "abcde"] == [{"completed": 8}] * 5
    assert (gpus(account), claims(account)) == ({0}, [])


def test_a_member_that_runs_although_its_group_has_ended_is_stopped(account: Account):
    """The server has ended, its group with it, and one site's training job was started all the
    same: by somebody, or by a create that came through after all."""
    submit(account, "fed", ends_with="fed-site-1")
    account.completes("fed-site-1")
    assert states(account, "fed") == {"completed": 1, "cancelled": 7}
    lost = account.plane.job("fed-site-5")
    assert lost.status == "Stopped"
    lost.status, lost.ended_at = "InProgress", None
    stops = account.plane.calls["StopTrainingJob"]
    for _ in range(2):
        account.clock.set(account.clock.now() + 6 * MINUTE)
        account.send("tick")
        account.settle()
    assert account.plane.calls["StopTrainingJob"] == stops + 1
    assert account.state("fed-site-5") == "cancelled"
    assert (states(account, "fed"), gpus(account)) == ({"completed": 1, "cancelled": 7}, {0})
