"""`slotq submit JOB_FOLDER`: what is shipped, what is refused, and the name of each run."""

from __future__ import annotations

import io
import json
import tarfile

import pytest
from botocore.exceptions import ReadTimeoutError

from slotq.cli.exits import ExitCode
from slotq.configuration.settings import Config
from slotq.errors import InvalidRequest, NotConfigured
from slotq.federated.app_folder import app_in
from slotq.federated.job_folder import job_in
from slotq.federated.members import runs_of
from slotq.federated.meta import made_for, read
from tests.unit.client.fake_aws import FakeS3, FakeServices
from tests.unit.client.fake_queue import ENDPOINT, client_of, pool_view

POOLS = ("server", "site-1")
RUNS = {"AlgorithmSpecification": {"ContainerEntrypoint": ["python3", "train.py"]}}
SCRIPT = {"HyperParameters": {"sagemaker_program": "train.py"}}
META = {"name": "fed", "deploy_map": {"app1": ["@ALL"]}}
P4 = "ml.p4d.24xlarge"
SHIPPED = {"slotq_training.py", "hfai.py"}


def laid(root, files):
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    return root


def names_in(app):
    with tarfile.open(fileobj=io.BytesIO(app.pack.content)) as tar:
        return set(tar.getnames())


APP = {"app/job.json": RUNS, "app/source/train.py": "", "app/config/site.json": "{}"}


def test_files_beside_the_source_are_shipped_as_they_lie(tmp_path):
    app = app_in(laid(tmp_path, APP) / "app")
    files = {"config/site.json", "source/train.py"}
    assert names_in(app) == files | {f"source/{name}" for name in SHIPPED}
    assert app.start == "source"
    assert b'\ncd "$ml/code"\ntar -xzf "$here/sourcedir.tar.gz"\ncd source\nexec' in (
        app.driver or b""
    )


def test_without_a_source_the_folder_is_the_code(tmp_path):
    files = {"app/job.json": RUNS, "app/custom/net.py": "", "app/config/config.json": "{}"}
    app = app_in(laid(tmp_path, files) / "app")
    assert names_in(app) == {"custom/net.py", "config/config.json"} | SHIPPED
    assert (app.start, b"\ncd source\n" in (app.driver or b"")) == ("", False)


@pytest.mark.parametrize("link", ["app1", "app1/source"])
def test_a_link_out_of_the_job_folder_is_refused(tmp_path, link):
    laid(tmp_path, {"keys/id_rsa": "", "keys/job.json": RUNS})
    job = laid(tmp_path / "job", {"meta.json": META})
    if link != "app1":
        laid(job, {"app1/job.json": RUNS})
    (job / link).symlink_to(tmp_path / "keys")
    with pytest.raises(NotConfigured, match="outside the packed folder"):
        job_in(job, pools=POOLS)


def test_apps_of_a_job_folder_share_a_source_by_links(tmp_path):
    job = laid(tmp_path, {"meta.json": META, "shared/train.py": "", "app1/job.json": RUNS})
    (job / "app1/source").symlink_to("../shared")
    assert "source/train.py" in names_in(job_in(job, pools=POOLS).apps["app1"])


def test_an_app_with_nothing_but_its_request_ships_nothing(tmp_path):
    assert (
        app_in(laid(tmp_path, {"app/job.json": RUNS, "app/.gitignore": "*.log"}) / "app").pack
        is None
    )


def test_the_ignore_files_of_the_app_and_of_its_source_count(tmp_path):
    files = {
        "app/.slotqignore": "notes.md",
        "app/notes.md": "",
        "app/source/.gitignore": "*.bin",
        "app/source/big.bin": "",
    }
    app = app_in(laid(tmp_path, APP | files) / "app")
    assert names_in(app) - SHIPPED >= {"config/site.json", "source/train.py"}
    assert not {"notes.md", "source/big.bin"} & names_in(app)


def test_the_source_may_be_a_link(tmp_path):
    laid(tmp_path, {"shared/train.py": "", "app/job.json": RUNS})
    (tmp_path / "app/source").symlink_to("../shared")
    assert "source/train.py" in names_in(app_in(tmp_path / "app"))


def test_script_mode_gets_the_source_alone_and_refuses_what_lies_beside(tmp_path):
    files = APP | {"app/job.json": SCRIPT}
    with pytest.raises(InvalidRequest) as refused:
        app_in(laid(tmp_path, files) / "app")
    assert refused.value.field == "app/config/site.json"
    assert "app/config/site.json would not reach the container" in refused.value.message
    (tmp_path / "app/.slotqignore").write_text("config/")
    app = app_in(tmp_path / "app")
    assert names_in(app) == {"train.py", "sitecustomize.py"} | SHIPPED
    assert (app.start, app.driver) == ("", None)


def test_a_script_that_is_not_there_is_refused(tmp_path):
    files = {"app/job.json": SCRIPT, "app/source/main.py": ""}
    with pytest.raises(InvalidRequest, match=r"is 'train\.py', which is not among .*\(main\.py\)"):
        app_in(laid(tmp_path, files) / "app")


def test_files_that_nothing_runs_are_refused_by_name(tmp_path):
    files = {"app/job.json": {}, **{f"app/data/{n}.csv": "" for n in range(7)}}
    with pytest.raises(InvalidRequest, match=r"run of app/data/0\.csv, .* and 2 more: give"):
        app_in(laid(tmp_path, files) / "app")


def test_a_link_to_nothing_is_warned_of(tmp_path):
    laid(tmp_path, APP)
    (tmp_path / "app/source/weights").symlink_to("gone")
    (warning,) = app_in(tmp_path / "app").warnings
    assert warning.startswith("app/source/weights cannot be shipped")


def test_one_request_beside_the_document_serves_the_apps_without_their_own(tmp_path):
    own = {"AlgorithmSpecification": {"ContainerEntrypoint": ["python3", "serve.py"]}}
    meta = {"name": "fed", "deploy_map": {"server": ["server"], "client": ["site-1"]}}
    files = {
        "meta.json": meta,
        "job.json": RUNS,
        "client/source/train.py": "",
        "server/source/serve.py": "",
        "server/job.json": own,
    }
    found = job_in(laid(tmp_path, files), pools=POOLS)
    assert found.apps["client"].command == ["python3", "train.py"]
    assert found.apps["server"].command == ["python3", "serve.py"]
    assert found.warnings == ()
    (tmp_path / "job.json").write_text('{"Tags": 5}')
    with pytest.raises(InvalidRequest) as refused:
        job_in(tmp_path, pools=POOLS)
    assert refused.value.field == "job.json.Tags"
    (tmp_path / "client/job.json").write_text(json.dumps(RUNS))
    assert job_in(tmp_path, pools=POOLS).warnings == (
        "job.json beside meta.json has no effect: each app has its own",
    )


def test_the_document_comes_with_the_code_as_it_is(tmp_path):
    text = '{"name": "fed", "deploy_map": {"app1": ["@ALL"]}, "study": "lungs"}'
    files = {"meta.json": text, "app1/job.json": RUNS, "app1/source/train.py": ""}
    found = job_in(laid(tmp_path, files), pools=POOLS)
    with tarfile.open(fileobj=io.BytesIO(found.apps["app1"].pack.content)) as tar:
        assert tar.extractfile("source/meta.json").read() == text.encode()
    assert found.warnings == found.meta.warnings != ()


def test_what_goes_to_no_site_is_warned_of(tmp_path):
    files = {
        "meta.json": {"name": "fed", "deploy_map": {"app1": ["@ALL"], "spare": []}},
        "app1/job.json": RUNS,
        "app1/source/train.py": "",
        "spare/x": "",
        "data/y": "",
        "settings.yaml": "",
        ".git/config": "",
    }
    found = job_in(laid(tmp_path, files), pools=POOLS)
    (warning,) = found.warnings
    assert warning.startswith(f"data/, settings.yaml of {tmp_path.name} goes to no site")


@pytest.mark.parametrize("form", ["meta.yaml", "meta.yml"])
def test_another_form_of_the_document_is_named(tmp_path, form):
    with pytest.raises(
        InvalidRequest, match=rf"has {form}: SlotQ reads the document as meta\.json"
    ):
        job_in(laid(tmp_path, {form: ""}), pools=POOLS)


# Runs: each submission of a folder is a new one.


@pytest.fixture
def folder(tmp_path):
    files = {"meta.json": META, "app1/job.json": RUNS, "app1/source/train.py": ""}
    return str(laid(tmp_path / "job", files))


@pytest.fixture
def submit(slotq, http, clock, queue):
    queue.pools = [pool_view(name) for name in POOLS]
    settings = {
        "image": "train:1",
        "role": "arn:aws:iam::123456789012:role/trainer",
        "output": "s3://bucket/runs",
    }

    def run(*words):
        config = Config(endpoint=ENDPOINT, region="eu-west-1", **settings)
        world = {
            "connect": lambda _: client_of(http, clock=clock, config=config),
            "aws": FakeServices(s3=FakeS3()),
        }
        return slotq("submit", *words, world=world)

    return run


def test_the_same_folder_again_is_a_new_run(submit, queue, folder):
    assert submit(folder).exit_code == ExitCode.OK
    second = submit(folder)
    assert second.exit_code == ExitCode.OK, second.output
    assert "2 members of fed-r2: fed has been submitted before" in second.stderr
    assert submit(folder, "--json").exit_code == ExitCode.OK
    assert [*queue.groups] == ["fed", "fed-r2", "fed-r3"]
    assert queue.groups["fed-r2"][0] == ["fed-r2-server", "fed-r2-site-1"]
    ids = [queue.requests[f"{run}-server"]["Environment"]["SLOTQ_RUN"] for run in queue.groups]
    assert len({*ids}) == 3
    assert ids[0] == queue.requests["fed-site-1"]["Environment"]["SLOTQ_RUN"]


def test_a_retry_after_a_lost_answer_makes_no_second_run(submit, queue, folder, monkeypatch):
    handle, lost = queue.handle, []

    def loses_an_answer(method, path, query, body):
        found = handle(method, path, query, body)
        if method == "POST" and not lost:
            lost.append(path)
            raise ReadTimeoutError(endpoint_url=ENDPOINT)
        return found

    monkeypatch.setattr(queue, "handle", loses_an_answer)
    done = submit(folder)
    assert (done.exit_code, lost) == (ExitCode.OK, ["/groups"]), done.output
    assert [*queue.groups] == ["fed"]


def test_two_submissions_that_saw_no_run_are_two_runs(submit, queue, folder, monkeypatch):
    """As at the same moment: neither sees the other's group in the list."""
    monkeypatch.setattr("slotq.cli.groups.job_folder._taken", lambda _: set())
    submit(folder)
    assert submit(folder).exit_code == ExitCode.OK
    assert [*queue.groups] == ["fed", "fed-r2"]


def test_with_a_name_the_same_folder_is_the_same_group(submit, queue, folder):
    assert "exists" not in submit(folder, "--name", "nightly").stderr
    again = submit(folder, "--name", "nightly")
    assert again.exit_code == ExitCode.OK
    assert "nightly, which exists: the same folder is the same run (--name)" in again.stderr
    assert [*queue.groups] == ["nightly"]
    assert "Environment" not in queue.requests["nightly-server"]
    (queue.groups["nightly"][0]).append("other")
    assert submit(folder, "--name", "nightly").exit_code == ExitCode.NO


def test_a_dry_run_shows_the_next_name_and_no_id(submit, queue, folder):
    submit(folder)
    shown = json.loads(submit(folder, "--dry-run").stdout)
    assert shown["name"] == "fed-r2"
    assert all("Environment" not in member for member in shown["members"])
    assert [*queue.groups] == ["fed"]


def test_warnings_are_printed_in_front_of_json_too(submit, folder, tmp_path):
    (tmp_path / "job/meta.json").write_text(json.dumps({**META, "min_client": 1}))
    done = submit(folder, "--json")
    assert "warning: meta.json: 'min_client' is kept" in done.stderr
    assert json.loads(done.stdout)["name"] == "fed"


def test_the_names_of_further_runs_leave_room_for_those_of_the_members():
    name = "n" * 56
    meta = read(made_for("app1", name), folders=["app1"], pools=POOLS)
    first, second, *_ = runs_of(meta, ())
    assert (first, second) == (name, "n" * 53 + "-r2")
    assert all(len(f"{second}-{site}") <= 63 for site in ("server", "site-1"))


def test_what_the_sites_overrule_of_a_request_is_warned_of(submit, queue, folder, tmp_path):
    queue.pools = [pool_view("server"), pool_view("site-1", instance_type=P4)]
    meta = {**META, "resource_spec": {"site-1": {"num_gpus": 1}}}
    (tmp_path / "job/meta.json").write_text(json.dumps(meta))
    settings = {"slotq:pools": "a", "slotq:demand": "b=1"}
    asked = {
        **RUNS,
        "TrainingJobName": "mine",
        "ResourceConfig": {"InstanceType": "ml.p5.48xlarge"},
        "Tags": [{"Key": key, "Value": value} for key, value in settings.items()],
    }
    (tmp_path / "job/app1/job.json").write_text(json.dumps(asked))
    lines = [line for line in submit(folder, "--dry-run").stderr.splitlines() if "warning" in line]
    where = "of app1/job.json has no effect"
    assert lines == [
        f"warning: TrainingJobName {where}: a member is named fed-SITE",
        f"warning: InstanceType ml.p5.48xlarge {where} where the pool has another: site-1 has {P4}",
        f"warning: the tag slotq:pools {where} at server, site-1",
        f"warning: the tag slotq:demand {where} at site-1",
    ]


def test_a_site_in_a_pool_with_nodes_asks_for_gpus_of_a_node(submit, queue, folder, tmp_path):
    queue.pools = [
        pool_view("server"),
        pool_view("site-1", nodes={}),
        pool_view("site-2", nodes={}),
        pool_view("site-3"),
    ]
    spec = {
        "site-1": {"num_gpus": 2, "mem_per_gpu": "16G"},
        "site-2": {"num_gpus": 16},
        "site-3": {"num_gpus": 2},
    }
    (tmp_path / "job/meta.json").write_text(json.dumps({**META, "resource_spec": spec}))
    assert submit(folder).exit_code == 0
    tags = {
        name: {tag["Key"]: tag["Value"] for tag in request["Tags"]}
        for name, request in queue.requests.items()
    }
    assert tags["fed-site-1"]["slotq:gpus"] == "2"
    assert tags["fed-site-1"]["slotq:demand"] == "mem_per_gpu_in_GiB=16"
    for site in ("site-2", "site-3"):  # More than an instance has; a pool without nodes.
        assert "slotq:gpus" not in tags[f"fed-{site}"]
        assert tags[f"fed-{site}"]["slotq:demand"].startswith("num_gpus=")
