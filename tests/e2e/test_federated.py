"""docs/federated.md: federated averaging over the rendezvous, with real processes."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from click.testing import CliRunner, Result

from slotq import QueueClient
from slotq.cli.exits import ExitCode
from slotq.cli.main import cli
from slotq.demo.environment import with_variables
from tests.e2e.test_commands import request
from tests.e2e.waiting import until
from tests.emulators import emulator

PAGE = (Path(__file__).parents[2] / "docs" / "federated.md").read_text()
POOLS = "server=1,site-1=1,site-2=1,site-3=1,site-4=1"
CLIENTS = ("site-1", "site-2", "site-3")
BUCKET = "federated"


STANDS_FOR_FLARE = """#!/bin/sh
# A double of FLARE's command: it checks the job, says its options and leaves a model.
test -n "$(find "$2/meta.conf" -newermt 1980-01-02)" || exit 1
test "$1" = simulator -a -f "$2/meta.conf" -a -d "$2/app/config" -a -d "$2/idle" || exit 1
echo model > "$4/server.npy"
shift 4
echo "simulated with $*"
"""


@pytest.fixture(scope="module", autouse=True)
def _aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    double = tmp_path_factory.mktemp("bin") / "nvflare"
    double.write_text(STANDS_FOR_FLARE)
    double.chmod(0o755)
    path = os.pathsep.join([str(double.parent), os.environ["PATH"]])
    with with_variables({"PATH": path}, instead_of=()), emulator(POOLS):
        boto3.Session().client("s3").create_bucket(Bucket=BUCKET)
        yield


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLOTQ_IMAGE", "train:1")
    monkeypatch.setenv("SLOTQ_ROLE", "arn:aws:iam::123456789012:role/trainer")
    monkeypatch.setenv("SLOTQ_OUTPUT", f"s3://{BUCKET}/out")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def slotq(*words: str, code: int = ExitCode.OK) -> Result:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == code, done.output
    return done


def app(name: str) -> Path:
    (job, *_), (script, *_) = blocks("json"), blocks("python")
    (Path(name) / "source").mkdir(parents=True)
    Path(name, "job.json").write_text(job)
    Path(name, "source", "train.py").write_text(script)
    return Path(name)


def average(*sites: str) -> float:
    """What the sites' data come to together, computed in one place."""
    every = []
    for site in sites:
        chance = random.Random(site)
        every += [chance.gauss(3, 1) for _ in range(chance.randint(50, 150))]
    return sum(every) / len(every)


def ended(group: str) -> dict[str, str]:
    """How each member has ended, once all have."""
    queue = QueueClient()
    jobs = {"completed", "cancelled", "failed", "stopped"}
    until(
        lambda: {job.state for job in queue.groups.view(group).jobs} <= jobs,
        f"{group} has not ended",
    )
    return {job.name: f"{job.state} {job.cause}".strip() for job in queue.groups.view(group).jobs}


def model_of(job: str) -> dict[str, Any]:
    import io
    import tarfile

    place = QueueClient().jobs.view(job).attempts[-1].artifact
    bucket, _, key = place.removeprefix("s3://").partition("/")
    content = boto3.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        found: dict[str, Any] = json.loads(tar.extractfile("model.json").read())
    return found


def test_it_runs_on_the_sites_that_have_room() -> None:
    app("averaging")
    busy = request("busy", "sleep", "600")
    busy["Tags"] = [{"Key": "slotq:pools", "Value": "site-4"}]
    queue = QueueClient()
    queue.submit(busy)
    until(lambda: queue.jobs.view("busy").state == "running", "site-4 is not busy")
    first, logs, show = (line.split()[1:] for line in blocks("sh")[0].splitlines())
    slotq(*first)
    said = slotq(*logs).output
    assert re.search(
        r"^averaging-server +\| averaged over site-1 site-2 site-3$", said, re.MULTILINE
    )
    states = ended("averaging")
    # Who has given its part may still be ending when the server has ended, and ends with it.
    clients = {states.pop(f"averaging-site-{number}") for number in (1, 2, 3)}
    assert clients <= {"completed", "cancelled group_ended"}
    assert states == {"averaging-server": "completed", "averaging-site-4": "cancelled left_out"}
    model = model_of("averaging-server")
    assert model["sites"] == [*CLIENTS]
    assert model["weight"] == pytest.approx(average(*CLIENTS), abs=1e-5)
    assert average(*CLIENTS) != pytest.approx(average(*CLIENTS, "site-4"), abs=1e-3)
    shown = slotq(*show).output
    assert "completed" in shown
    assert queue.jobs.view("averaging-server").attempts[-1].artifact in shown
    queue.jobs.cancel("busy")
    until(lambda: queue.jobs.view("busy").state == "cancelled", "site-4 is not free again")


SERVER_LEAVES = """
import slotq_training as slotq, os, time
slotq.rendezvous()
if os.environ["SLOTQ_ROLE"] == "server":
    raise SystemExit(0)
time.sleep(600)
"""


def test_the_group_ends_with_its_server() -> None:
    (app("leaving") / "source" / "train.py").write_text(SERVER_LEAVES)
    slotq("submit", "leaving")
    assert ended("leaving") == {
        "leaving-server": "completed",
        **dict.fromkeys((f"leaving-site-{n}" for n in (1, 2, 3, 4)), "cancelled group_ended"),
    }


TOO_FEW = """
import os, time
time.sleep(600 if os.environ["SLOTQ_SITE"] not in {"site-1", "site-2"} else 0)
raise SystemExit(1)
"""


def test_too_few_clients_end_the_group() -> None:
    folder = Path("hospitals")
    for name in ("aggregator", "trainer"):
        app(f"hospitals/{name}")
        (folder / name / "source" / "train.py").write_text(TOO_FEW)
    meta = json.loads(blocks("json")[1])
    del meta["resource_spec"]
    (folder / "meta.json").write_text(json.dumps({**meta, "mandatory_clients": []}))
    shown = json.loads(slotq("submit", "hospitals/", "--dry-run").stdout)
    assert shown["gang"]["min_members"] == 3
    slotq("submit", "hospitals/", "--json")
    assert ended("hospitals") == {
        "hospitals-server": "cancelled group_ended",
        "hospitals-site-1": "failed",
        "hospitals-site-2": "failed",
        "hospitals-site-3": "cancelled group_ended",
    }


READS = """
import json, os, time
from pathlib import Path

import slotq_training as slotq

settings = json.loads(Path("../config/settings.json").read_text())
study = json.loads(Path("meta.json").read_text())["study"]
print(os.environ["SLOTQ_GROUP"], settings["rounds"], study, flush=True)
slotq.rendezvous(names=["server", "site-1"])
if os.environ["SLOTQ_ROLE"] == "client":
    time.sleep(600)  # Until the server has seen it, and has ended.
"""


def test_a_folder_of_flares_form_is_submitted_twice() -> None:
    """Files beside the source arrive, one job.json serves both apps, an unknown key is kept."""
    root = Path("lungs")
    for name in ("aggregator", "trainer"):
        (root / name / "source").mkdir(parents=True)
        (root / name / "config").mkdir()
        (root / name / "source" / "train.py").write_text(READS)
        (root / name / "config" / "settings.json").write_text('{"rounds": 3}')
    (root / "job.json").write_text(blocks("json")[0])
    meta = {
        "name": "lungs",
        "deploy_map": {"aggregator": ["server"], "trainer": ["site-1"]},
        "study": "asthma",
    }
    (root / "meta.json").write_text(json.dumps(meta))
    first = slotq("submit", "lungs")
    assert "'study' is kept, and has no effect" in first.stderr
    second = slotq("submit", "lungs")
    assert "lungs-r2: lungs has been submitted before" in second.stderr
    for run in ("lungs", "lungs-r2"):
        assert ended(run)[f"{run}-server"] == "completed"
        assert f"{run} 3 asthma" in slotq("logs", f"{run}-site-1").output


FLARES_EXAMPLE: dict[str, Any] = {
    "name": "try_algo1",
    "resource_spec": {
        "client1": {"num_gpus": 1, "mem_per_gpu_in_GiB": 1},
        "client2": {"num_gpus": 1, "mem_per_gpu_in_GiB": 1},
    },
    "deploy_map": {
        "hello-numpy-sag-server": ["server"],
        "hello-numpy-sag-client": ["client1", "client2"],
        "hello-numpy-sag-client3": ["client3"],
    },
    "min_clients": 2,
    "mandatory_clients": ["client1", "client2"],
}
SAYS = """
import os, time

import slotq_training as slotq

print(os.environ["SLOTQ_RESOURCES"], flush=True)
slotq.rendezvous(names=["server", "client1", "client2"])
if os.environ["SLOTQ_ROLE"] == "client":
    time.sleep(600)  # Until the server has seen it, and has ended.
"""


def test_flares_example_runs_on_sites_that_declare_nothing() -> None:
    """meta.json as NVIDIA FLARE's document has it."""
    sites = {"client1": "ml.g4dn.xlarge", "client2": "ml.p5.48xlarge", "client3": "ml.m5.large"}
    for site, kind in sites.items():
        slotq("pools", "set", site, "--slots", "1", "--instance-type", kind)
    for name in FLARES_EXAMPLE["deploy_map"]:
        (app(f"try/{name}") / "source" / "train.py").write_text(SAYS)
    Path("try", "meta.json").write_text(json.dumps(FLARES_EXAMPLE))
    slotq("submit", "try")
    assert ended("try-algo1")["try-algo1-server"] == "completed"
    said = slotq("logs", "try-algo1-client1").output
    assert '{"gpus":1,"mem_per_gpu_in_GiB":1,"slots":1}' in said
    shown = QueueClient().jobs.view("try-algo1-client2")
    assert (shown.demand, shown.requires) == ({"slots": 1}, {"gpus": 1, "mem_per_gpu_in_GiB": 1})
    spec = {"client3": {"num_gpus": 1, "mem_per_gpu_in_GiB": 1}}
    wants = {**FLARES_EXAMPLE, "name": "never", "resource_spec": spec}
    Path("try", "meta.json").write_text(json.dumps(wants))
    refused = slotq("submit", "try", code=ExitCode.NO)
    assert "1 gpus, and no instance of its pools contains any" in refused.output
    for site in sites:
        slotq("pools", "remove", site)


FLARES_PLACES = {
    "meta.conf": """
# No name: the folder's.
min_clients = 2
deploy_map {
  app = ["@All"]
  idle = []
}
""",
    "app/config/config_fed_server.json": "{}",
    "app/config/config_fed_client.json": "{}",
    "idle/config/notes.txt": "",
}


def test_flares_own_apps_run_in_flares_simulator() -> None:
    for name, content in FLARES_PLACES.items():
        file = Path("lungs_of_flare", name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    done = slotq("submit", "lungs_of_flare", "--image", "flare:2.9")
    assert "FLARE's simulator plays server, site-1, site-2, site-3, site-4 in" in done.stderr
    assert ended("lungs-of-flare") == {"lungs-of-flare-server": "completed"}
    said = slotq("logs", "lungs-of-flare-server").output
    assert "simulated with -c site-1,site-2,site-3,site-4 -t 4 -m 4" in said
    again = slotq("submit", "lungs_of_flare", "--image", "flare:2.9")
    assert "submitting 1 member of lungs-of-flare-r2" in again.stderr
    app("averaging")
    refused = slotq("submit", "averaging", "--image", "other", code=ExitCode.USAGE)
    assert "--image is not for a JOB_FOLDER: the job.json" in refused.output


def test_a_site_is_chosen_by_what_its_pool_says_in_words() -> None:
    (app("worded") / "source" / "train.py").write_text(
        'import os; print("has", os.environ["SLOTQ_RESOURCES"])'
    )
    Path("job", "app").parent.mkdir()
    Path("worded").rename("job/app")
    spec = {"site-w": {"gpu_type": "H100", "confidential": True}}
    meta = {"deploy_map": {"app": ["server", "site-w"]}, "resource_spec": spec, "name": "worded"}
    Path("job/meta.json").write_text(json.dumps(meta))
    new = ("--slots", "1", "--instance-type", "ml.p5.48xlarge")
    slotq("pools", "set", "site-w", *new, "--property", "gpu_type=A100")
    refused = slotq("submit", "job", "--site", "server=server", code=ExitCode.NO)
    assert "gpu_type H100, and site-w has A100" in refused.output
    slotq(
        "pools", "set", "site-w", "--property", "gpu_type=H100", "--property", "confidential=true"
    )
    slotq("submit", "job", "--site", "server=server")
    ended("worded")
    shown = QueueClient().jobs.view("worded-site-w")
    assert shown.requires == {"confidential": True, "gpu_type": "H100"}
    assert "confidential of true" in slotq("show", "worded-site-w").output
    line = 'has {"confidential":true,"gpu_type":"H100","slots":1}'
    until(lambda: line in slotq("logs", "worded-site-w").output, "its line is not in the log")
    slotq("pools", "remove", "site-w")
