"""What every keeper of nodes' documents must do: in memory, and in S3.

moto honours If-Match and If-None-Match, of one write after the other. That S3 decides between two
writes at the same moment is not shown here: moto checks and writes in two steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws

from slotq.local.training.virtual_runner import VirtualClock
from slotq_core.adapters import nodes
from slotq_core.adapters.memory.node_documents import MemoryNodeDocuments
from slotq_core.adapters.nodes.agent import Settings
from slotq_core.adapters.nodes.documents import S3NodeDocuments, lease_of
from slotq_core.errors import Conflict, Unavailable
from slotq_core.model.nodes import Node
from slotq_core.model.pools import NodeRules
from slotq_core.ports.nodes import NodeDocuments
from slotq_core.wire.nodes.documents import LARGEST_REPORT
from tests.contract.keeping_nodes import a_node

BUCKET = "nodes"
Write = Callable[[Node, bytes], None]
NODE = a_node(generation=7)


@pytest.fixture(params=["memory", "s3"])
def world(request: pytest.FixtureRequest) -> Iterator[tuple[NodeDocuments, Write]]:
    if request.param == "memory":
        fake = MemoryNodeDocuments(VirtualClock(int(time.time() * 1000)), route="https://q/prod/")
        yield fake, fake.write_report
        return
    with mock_aws():
        s3 = boto3.client("s3", "us-east-1")
        s3.create_bucket(Bucket=BUCKET)

        def write(node: Node, content: bytes) -> None:
            key = f"nodes/{node.pool}/{node.name}/{node.generation}/report.json"
            s3.put_object(Bucket=BUCKET, Key=key, Body=content)

        yield in_s3(lambda: s3), write


def in_s3(make_client: Callable[[], Any]) -> S3NodeDocuments:
    return S3NodeDocuments(
        bucket=BUCKET, route="https://q/prod/", lease=60, make_client=make_client
    )


@pytest.fixture
def documents(world: tuple[NodeDocuments, Write]) -> NodeDocuments:
    return world[0]


def test_there_is_nothing_at_first(documents: NodeDocuments) -> None:
    assert documents.orders(NODE) is None
    assert documents.report(NODE) is None


def test_orders_are_read_as_they_were_written(documents: NodeDocuments) -> None:
    before = int(time.time()) * 1000
    documents.put_orders(NODE, b"1", replaces=None)
    found = documents.orders(NODE)
    assert found is not None
    assert found.content == b"1"
    assert before <= found.written_at <= time.time() * 1000
    assert documents.orders(replace(NODE, generation=8)) is None
    assert documents.orders(replace(NODE, pool="p4")) is None
    assert documents.report(NODE) is None


def test_a_version_is_replaced_once(documents: NodeDocuments) -> None:
    documents.put_orders(NODE, b"1", replaces=None)
    with pytest.raises(Conflict):
        documents.put_orders(NODE, b"one", replaces=None)
    first = documents.orders(NODE)
    assert first is not None
    documents.put_orders(NODE, b"2", replaces=first.version)
    with pytest.raises(Conflict):
        documents.put_orders(NODE, b"two", replaces=first.version)
    second = documents.orders(NODE)
    assert second is not None
    assert second.content == b"2"
    assert second.version != first.version


def test_orders_that_are_gone_are_not_replaced(documents: NodeDocuments) -> None:
    with pytest.raises(Conflict):
        documents.put_orders(NODE, b"2", replaces='"0123456789abcdef0123456789abcdef"')
    assert documents.orders(NODE) is None


@pytest.mark.parametrize("content", [b"", b"x", b"x" * (LARGEST_REPORT + 1)], ids=len)
def test_a_report_is_read_up_to_its_longest_form(
    world: tuple[NodeDocuments, Write], content: bytes
) -> None:
    documents, write = world
    write(NODE, content)
    found = documents.report(NODE)
    assert found is not None
    assert found.content == content


def test_a_launch_is_what_the_agent_reads(documents: NodeDocuments) -> None:
    launch = documents.launch(NODE, NodeRules(gpu_ids=("GPU-a", "GPU-b")))
    assert launch.entrypoint == tuple(nodes.entrypoint(BUCKET))
    settings = Settings(launch.environment)
    assert (settings.node, settings.generation) == (NODE.name, 7)
    assert (settings.bucket, settings.prefix) == (BUCKET, f"nodes/p5/{NODE.name}/7/")
    assert settings.route == f"https://q/prod/nodes/p5/{NODE.name}/report"
    assert settings.gpus == "GPU-a,GPU-b"
    assert settings.lease == documents.lease() == 60
    assert launch.environment["SLOTQ_NODE_TOKEN"] == NODE.token


@pytest.mark.parametrize(("tenant", "is_shared"), [("1a2b", True), ("1a2b-3c4d", False)])
def test_a_node_of_every_project_knows_that_it_is(
    documents: NodeDocuments, tenant: str, *, is_shared: bool
) -> None:
    launch = documents.launch(replace(NODE, tenant=tenant), NodeRules())
    assert Settings(launch.environment).is_shared is is_shared


def test_without_a_route_the_lease_is_longer() -> None:
    clock = VirtualClock(0)
    assert MemoryNodeDocuments(clock).lease() == lease_of("") == 180
    launch = MemoryNodeDocuments(clock).launch(NODE, NodeRules())
    settings = Settings(launch.environment)
    assert (settings.route, settings.gpus, settings.lease) == ("", "", 180)


def test_the_agent_is_in_the_bucket_from_then_on() -> None:
    with mock_aws():
        s3 = boto3.client("s3", "us-east-1")
        s3.create_bucket(Bucket=BUCKET)
        documents = in_s3(lambda: s3)
        for _ in range(2):
            documents.launch(NODE, NodeRules())
        (found,) = s3.list_objects_v2(Bucket=BUCKET)["Contents"]
        assert found["Key"] == nodes.agent_key()
        body = s3.get_object(Bucket=BUCKET, Key=found["Key"])["Body"].read()
        assert body == nodes.agent_source()


class _Refusing:
    """A client of S3 whose every call fails."""

    def __init__(self, code: str) -> None:
        self._code = code

    def __getattr__(self, word: str) -> Any:
        def fails(**_: Any) -> None:
            if self._code:
                raise ClientError({"Error": {"Code": self._code}}, word)
            raise EndpointConnectionError(endpoint_url="https://s3")

        return fails


@pytest.mark.parametrize("code", ["", "SlowDown", "AccessDenied", "NoSuchBucket"])
def test_a_bucket_that_does_not_answer_is_unavailable(code: str) -> None:
    documents = in_s3(lambda: _Refusing(code))
    calls: list[Callable[[], object]] = [
        lambda: documents.orders(NODE),
        lambda: documents.report(NODE),
        lambda: documents.put_orders(NODE, b"1", replaces=None),
        lambda: documents.launch(NODE, NodeRules()),
    ]
    for call in calls:
        with pytest.raises(Unavailable):
            call()


def test_a_write_beside_another_one_is_a_conflict() -> None:
    documents = in_s3(lambda: _Refusing("ConditionalRequestConflict"))
    with pytest.raises(Conflict):
        documents.put_orders(NODE, b"1", replaces=None)
