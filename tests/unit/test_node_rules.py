"""The setting `nodes` of a pool: what is read, what is refused, and what is written."""

from __future__ import annotations

from typing import Any

import pytest

from slotq_core.adapters.deployment_settings import parse_pools, pools_text
from slotq_core.admission.roles_and_plans import ANY_ROLE, ExecutionRoles
from slotq_core.errors import InvalidRequest, Misconfigured
from slotq_core.model.pools import NodeRules, Pool
from slotq_core.wire.configuration import parse_pool
from slotq_core.wire.document.contents import read
from slotq_core.wire.document.writing import pool_entry
from slotq_core.wire.nodes.node_rules import KEYS, TEXT_KEYS, from_texts
from slotq_core.wire.pool_definition import defined, following, settings_of

ROLE = "arn:aws:iam::123456789012:role/Train"
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1"
VPC = {"subnets": ["subnet-1", "subnet-2"], "security_groups": ["sg-1"]}
FULL = {
    "keep": 900,
    "share": "pool",
    "image": IMAGE,
    "role": ROLE,
    "vpc": VPC,
    "gpu_ids": list("01234567"),
}
FULL_RULES = NodeRules(
    gpus=8,
    keep=900_000,
    shared=True,
    image=IMAGE,
    role=ROLE,
    subnets=("subnet-1", "subnet-2"),
    security_groups=("sg-1",),
    gpu_ids=tuple("01234567"),
)
P5 = "ml.p5.48xlarge"
NO_GPUS = "ml.m5.large"


def pool(nodes: Any, kind: str = P5, **settings: Any) -> Pool:
    return defined("p", {"slots": 2, "instance_type": kind, "nodes": nodes, **settings})


@pytest.mark.parametrize(
    ("nodes", "rules"),
    [
        (None, None),
        (False, None),
        ("off", None),
        ({}, NodeRules(gpus=8)),
        (True, NodeRules(gpus=8)),
        ("on", NodeRules(gpus=8)),
        ({"keep": 0}, NodeRules(gpus=8, keep=0)),
        ({"keep": "10m"}, NodeRules(gpus=8)),
        ({"gpus": 8}, NodeRules(gpus=8)),
        (FULL, FULL_RULES),
    ],
)
def test_what_makes_which_rules(nodes: Any, rules: NodeRules | None) -> None:
    assert pool(nodes).nodes == rules


@pytest.mark.parametrize(
    ("nodes", "field", "said"),
    [
        ({"keeps": 1}, "nodes.keeps", "'keeps' is not one of gpus, keep, share"),
        ({"vpc": {"subnet": []}}, "nodes.vpc.subnet", "is not one of subnets, security_groups"),
        ({"keep": -1}, "nodes.keep", "a whole number of seconds from 0 to 2,419,200, not -1"),
        ({"keep": 28 * 86_400 + 1}, "nodes.keep", "from 0 to 2,419,200"),
        ({"keep": "soon"}, "nodes.keep", "'soon'"),
        ({"keep": True}, "nodes.keep", "True"),
        ({"gpus": 65}, "nodes.gpus", "a whole number from 1 to 64, not 65"),
        ({"gpus": 4}, "nodes.gpus", "each instance has 8: leave gpus out"),
        ({"gpus": True}, "nodes.gpus", "True"),
        ({"share": "all"}, "nodes.share", "one of project, pool, not 'all'"),
        ({"image": "a b"}, "nodes.image", "an image's URI"),
        ({"image": "x" * 256}, "nodes.image", "at most 255"),
        ({"role": "Train"}, "nodes.role", "an execution role's ARN"),
        ({"vpc": {"subnets": "subnet-1"}}, "nodes.vpc.subnets", "a list of at most 16"),
        ({"vpc": {"subnets": ["a"] * 2}}, "nodes.vpc.subnets", "each once"),
        ({"vpc": {"subnets": ["subnet-1"]}}, "nodes.vpc.security_groups", "both or neither"),
        ({"vpc": {"security_groups": ["sg"] * 6}}, "nodes.vpc.security_groups", "at most 5"),
        ({"gpu_ids": ["0", "1"]}, "nodes.gpu_ids", "names 2 GPUs, and each node has 8"),
        ({"gpu_ids": ["0,1"]}, "nodes.gpu_ids", "CUDA_VISIBLE_DEVICES"),
        (
            {"gpu_ids": ["pretend:1000000"]},
            "nodes.gpu_ids",
            "names 1000000 GPUs (pretend:1000000), and each node has 8",
        ),
        ({"gpu_ids": ["pretend:9x1024"]}, "nodes.gpu_ids", "names 9 GPUs"),
        ({"gpu_ids": ["pretend:many"]}, "nodes.gpu_ids", "'pretend:many' is not alone, or not in"),
        ({"gpu_ids": [*"0123456", "pretend:1"]}, "nodes.gpu_ids", "'pretend:1' is not alone"),
        ("sometimes", "nodes", "an object with some of"),
        (7, "nodes", "an object"),
    ],
)
def test_what_is_refused_by_name(nodes: Any, field: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        pool(nodes)
    assert refused.value.field == field
    assert said in refused.value.message


def test_an_instance_without_gpus_needs_their_number() -> None:
    with pytest.raises(InvalidRequest, match=r"nodes\.gpus is needed"):
        pool({}, NO_GPUS)
    rules = pool({"gpus": 2, "gpu_ids": ["a", "b"]}, NO_GPUS).nodes
    assert rules == NodeRules(gpus=2, gpu_ids=("a", "b"))


@pytest.mark.parametrize("one", ["pretend:2", "pretend:2x16384"])
def test_one_id_may_pretend_all_gpus_of_a_node(one):
    assert pool({"gpus": 2, "gpu_ids": [one]}, NO_GPUS).nodes.gpu_ids == (one,)


def test_no_node_pretends_more_gpus_than_it_has():
    """Also where the pool's one GPU had room for the one id."""
    with pytest.raises(InvalidRequest, match="names 1000000 GPUs"):
        pool({"gpus": 1, "gpu_ids": ["pretend:1000000"]}, NO_GPUS)


def test_what_the_pool_declares_counts_where_the_type_is_unknown() -> None:
    rules = pool({}, "ml.new.large", resources={"gpus": 8}).nodes
    assert rules == NodeRules(gpus=4)


def test_another_change_leaves_the_nodes() -> None:
    before = pool(FULL)
    assert defined("p", {"slots": 3}, before).nodes == FULL_RULES
    assert defined("p", {"nodes": None}, before).nodes is None
    assert defined("p", {"nodes": {"keep": 60}}, before).nodes == NodeRules(gpus=8, keep=60_000)


@pytest.mark.parametrize(
    ("kind", "gpus", "ids"),
    [("ml.g5.12xlarge", 4, ()), (NO_GPUS, 8, tuple("01234567")), (P5, 8, tuple("01234567"))],
)
def test_another_instance_type_brings_its_own_gpus(
    kind: str, gpus: int, ids: tuple[str, ...]
) -> None:
    before = pool(FULL)
    after = following(before, defined("p", {"instance_type": kind}, before))
    assert after.nodes is not None
    assert (after.nodes.gpus, after.nodes.gpu_ids, after.nodes.role) == (gpus, ids, ROLE)


@pytest.mark.parametrize(
    "made", [pool(None), pool({}), pool(FULL), pool({"gpus": 2}, NO_GPUS)], ids=str
)
def test_each_form_gives_the_pool_back(made: Pool) -> None:
    assert defined("p", settings_of(made)) == made
    assert parse_pools(pools_text([made])) == (made,)
    assert read({"pools": [pool_entry(made)]}).pools == (made,)


def test_the_document_says_only_what_is_not_known() -> None:
    assert pool_entry(pool({}))["nodes"] == {}
    assert pool_entry(pool({"keep": 60}))["nodes"] == {"keep": 60}
    assert pool_entry(pool({"gpus": 2}, NO_GPUS))["nodes"] == {"gpus": 2}
    assert "nodes" not in pool_entry(pool(None))
    full = {key: value for key, value in FULL.items() if key != "gpus"}
    assert pool_entry(pool(FULL))["nodes"] == full


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("on", NodeRules(gpus=8)),
        ("off", None),
        ("keep:10m+share:pool", NodeRules(gpus=8, shared=True)),
        (f"image:{IMAGE}+role:{ROLE}", NodeRules(gpus=8, image=IMAGE, role=ROLE)),
        (
            "vpc.subnets:subnet-1 subnet-2+vpc.security_groups:sg-1",
            NodeRules(gpus=8, subnets=("subnet-1", "subnet-2"), security_groups=("sg-1",)),
        ),
    ],
)
def test_the_plain_form(text: str, nodes: NodeRules | None) -> None:
    (made,) = parse_pools(f"p=2@{P5};nodes={text}")
    assert made.nodes == nodes


@pytest.mark.parametrize("text", ["keeps:1", "keep:-1", "vpc:x", "gpus:many", "perhaps"])
def test_a_wrong_plain_form(text: str) -> None:
    with pytest.raises(Misconfigured, match="pool 'p': nodes"):
        parse_pools(f"p=2@{P5};nodes={text}")


def test_a_text_has_every_key() -> None:
    texts = {
        "gpus": "8",
        "keep": "15m",
        "share": "pool",
        "image": IMAGE,
        "role": ROLE,
        "gpu_ids": "0,1,2,3,4,5,6,7",
        "vpc.subnets": "subnet-1,subnet-2",
        "vpc.security_groups": "sg-1",
    }
    assert {*texts} == {*TEXT_KEYS}
    setting = from_texts(texts.items())
    assert {*setting} == {*KEYS}
    assert pool(setting).nodes == FULL_RULES


@pytest.mark.parametrize(
    ("body", "settings"),
    [
        ('{"nodes": null}', {"nodes": None}),
        ('{"nodes": false}', {"nodes": None}),
        ('{"nodes": true}', {"nodes": {}}),
        ('{"nodes": {"keep": 60, "share": "pool"}}', {"nodes": {"keep": 60, "share": "pool"}}),
    ],
)
def test_the_body_of_a_change(body: str, settings: dict[str, Any]) -> None:
    assert parse_pool(body) == (settings, None)


@pytest.mark.parametrize("key", ["keeps", "gpus", "vpc"])
def test_a_body_with_a_wrong_key(key: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_pool(f'{{"nodes": {{"{key}": -1}}}}')
    assert refused.value.field == f"nodes.{key}"


def test_the_faults_of_a_document_have_their_places() -> None:
    nodes = {"keeps": 1, "vpc": {"subnet": []}, "share": "all"}
    with pytest.raises(InvalidRequest) as refused:
        read({"pools": [{"name": "p", "capacity": 1, "instance_type": P5, "nodes": nodes}]})
    paths = [path for path, _ in refused.value.faults]
    assert paths == [
        "pools[0].nodes.share",
        "pools[0].nodes.vpc.subnet",
        "pools[0].nodes.keeps",
    ]
    assert "did you mean 'keep'?" in refused.value.message
    with pytest.raises(InvalidRequest) as refused:
        read({"pools": [{"name": "p", "capacity": 1, "instance_type": P5, "nodes": {"gpus": 65}}]})
    assert refused.value.faults[0][0] == "pools[0].nodes.gpus"


def test_a_role_that_the_deployment_does_not_allow_is_refused() -> None:
    roles, other = ExecutionRoles(allowed=(ROLE,)), ROLE.replace("Train", "Other")
    roles.check_nodes([], [pool({"role": ROLE}), pool({}), pool(None)])
    with pytest.raises(InvalidRequest, match=f"it may use: {ROLE}") as refused:
        roles.check_nodes([], [pool({"role": other})])
    assert refused.value.field == "nodes.role"
    kept = [pool({"role": other})]
    roles.check_nodes(kept, kept)  # As stored before the deployment's roles changed.
    ANY_ROLE.check_nodes([], kept)
