"""`slotq nodes`, the options for nodes, and what a job's page says of its node."""

from __future__ import annotations

import json

import pytest

from slotq.cli.exits import ExitCode
from slotq.output.job_tables import explanation, node_text
from slotq_core.wire.views.jobs import ReasonView
from slotq_core.wire.views.nodes import NodeJobView, NodeView
from tests.unit.client.fake_queue import MOMENT, job_view, pool_view

IMAGE = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/train:1"


def a_node(name: str = "node-1", pool: str = "p5", **fields) -> NodeView:
    described = {
        "state": "ready",
        "instance_type": "ml.p5.48xlarge",
        "gpus": 8,
        "free": [3, 4, 5, 6, 7],
        "jobs": [
            NodeJobView(name="a", state="running", gpus=2, gpu_ids=[0, 1]),
            NodeJobView(name="", state="running", gpus=1, gpu_ids=[2], gpu_bound="mps"),
        ],
        "owed": [NodeJobView(name="c", state="pending", gpus=6)],
        "training_job": "slotq-p5-node-1",
        "started_at": MOMENT,
    }
    return NodeView(pool=pool, name=name, **(described | fields))


def test_the_nodes_and_who_is_on_them(slotq, queue):
    idle = {"state": "starting", "jobs": [], "owed": [], "free": [*range(8)], "kept_until": MOMENT}
    queue.nodes = [a_node(), a_node("node-2", "p4", **idle)]
    done = slotq("nodes")
    assert done.exit_code == ExitCode.OK, done.output
    first, second = done.stdout.splitlines()[-2:]
    assert "a (0, 1), (another's) (2; mps); c waits for 6" in first
    assert first.split()[:3] == ["p5", "node-1", "ready"]
    assert second.split()[:5] == ["p4", "node-2", "starting", "8", "8"]
    only = json.loads(slotq("nodes", "--pool", "p4", "--json").stdout)
    assert [node["name"] for node in only["nodes"]] == ["node-2"]


def test_the_problems_of_agents_stand_below_the_nodes(slotq, queue):
    queue.nodes = [a_node(problems=["the route [does] not answer"]), a_node("node-2")]
    assert slotq("nodes").stdout.splitlines()[-1] == "p5/node-1: the route [does] not answer"
    first, second = json.loads(slotq("nodes", "--json").stdout)["nodes"]
    assert (first["problems"], second["problems"]) == (["the route [does] not answer"], [])


def test_a_queue_without_nodes(slotq):
    assert slotq("nodes").stdout.strip() == "no nodes"


@pytest.mark.parametrize(
    ("words", "nodes"),
    [
        (["--nodes"], {}),
        (["--no-nodes"], None),
        (["--node", "keep=10m", "--node", "share=pool"], {"keep": 600, "share": "pool"}),
        (["--node", f"image={IMAGE}"], {"image": IMAGE}),
        (
            ["--node", "vpc.subnets=a,b", "--node", "vpc.security_groups=c"],
            {"vpc": {"subnets": ["a", "b"], "security_groups": ["c"]}},
        ),
    ],
)
def test_how_a_pool_keeps_nodes(slotq, queue, words, nodes):
    queue.pools = [pool_view("p5")]
    done = slotq("pools", "set", "p5", *words, "--json")
    assert done.exit_code == ExitCode.OK, done.output
    (view_of_pool,) = json.loads(done.stdout)["pools"]
    made = view_of_pool["settings"]["nodes"]
    assert (made is None) == (nodes is None)
    for key, value in (nodes or {}).items():
        assert made[key] == value
    shown = slotq("pools", "show", "p5").stdout
    assert ("gpus 8" in shown) == (nodes is not None)


def test_wrong_options_for_nodes(slotq, queue):
    queue.pools = [pool_view("p5")]
    assert slotq("pools", "set", "p5", "--no-nodes", "--node", "keep=1").exit_code == ExitCode.USAGE
    done = slotq("pools", "set", "p5", "--node", "keeps=1")
    assert done.exit_code == ExitCode.NO
    assert "nodes.keeps" in done.stderr


def test_the_list_has_gpus_and_nodes_where_there_are_any(slotq, queue):
    assert "GPUS" not in slotq("ls").stdout
    queue.script(job_view("job1", "running", pool="p5", node="node-1", gpus=2, gpu_ids=[0, 2]))
    lines = [
        line for line in slotq("ls", env={"COLUMNS": "200"}).stdout.splitlines() if line.strip()
    ]
    assert {"GPUS", "NODE"} < {*lines[0].split()}
    assert any("node-1, GPUs 0 and 2" in line for line in lines)


def test_a_job_says_where_it_runs_and_why_not_on_a_node(slotq, queue):
    text = "takes a whole instance, not GPUs of a node: it is a member of a gang"
    whole = ReasonView(code="whole_instance", text=text, numbers={})
    on_node = job_view("job1", "running", pool="p5", node="node-1", gpus=3, gpu_ids=[0, 2, 3])
    queue.script(on_node)
    queue.script(job_view("job2", "running", pool="p5", whole=whole))
    assert node_text(on_node) == "node-1, GPUs 0, 2 and 3"
    assert node_text(job_view("job3", "running", node="node-1", gpu_ids=[7])) == "node-1, GPU 7"
    assert "node-1, GPUs 0, 2 and 3" in slotq("show", "job1").stdout
    assert "node         node-1, GPUs 0, 2 and 3" in explanation(on_node)
    assert text in " ".join(slotq("show", "job2").stdout.split())
    assert text in slotq("why", "job2").stdout


@pytest.mark.parametrize(("bound", "text"), [("mps", "by MPS"), ("framework", "its framework")])
def test_a_job_says_what_holds_it_to_its_part_of_a_gpu(slotq, queue, bound, text):
    queue.script(job_view("job1", "running", pool="p5", node="node-1", gpus=1, gpu_bound=bound))
    assert text in slotq("show", "job1").stdout
