"""The agent of a node as a real process: what its jobs find, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slotq_core.wire.nodes import AttemptPhase
from tests.functional.local.account import Account
from tests.functional.local.node_process import NodeProcess, attempt, node


@pytest.fixture
def agent(account: Account, request: pytest.FixtureRequest) -> Iterator[NodeProcess]:
    name = "node-" + request.node.name.replace("_", "-")[-40:].strip("-[]")
    with node(account, name) as made:
        yield made


def test_a_job_runs(agent: NodeProcess, account: Account) -> None:
    agent.start()
    agent.until_ready()
    source = "import os; print('gpus', os.environ['CUDA_VISIBLE_DEVICES'], flush=True)"
    agent.order(attempt(account, "first", source, gpus=(2, 3)))
    ended = agent.until_attempt("first")
    assert ended.state is AttemptPhase.COMPLETED, ended
    assert account.said("first") == ["gpus 2,3"]
