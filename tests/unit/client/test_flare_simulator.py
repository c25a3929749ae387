"""A folder of FLARE's apps without a job.json: what FLARE's simulator gets, and what it needs."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace

import pytest

from slotq.configuration.settings import Config
from slotq.errors import InvalidRequest, NotConfigured
from slotq.federated.job_folder import job_in
from slotq.federated.members import group_of
from tests.unit.client.fake_queue import pool_view
from tests.unit.client.test_job_folder import RUNS, laid

POOLS = [pool_view("server"), pool_view("site-1"), pool_view("site-2")]
NAMES = [pool.name for pool in POOLS]
CONFIG = Config(role="arn:aws:iam::123456789012:role/r", output="s3://bucket/out")
FLARES = {
    "meta.conf": "resource_spec { liver { num_of_gpus = 8 } }\nmin_clients = 2\n"
    "deploy_map { agg = [server], org = [liver, spleen], idle = [] }",
    "agg/config/config_fed_server.conf": "a = 1",
    "agg/config/log_config.json": "{}",
    "org/config/config_fed_client.json": "{}",
    "org/custom/net.py": "",
    "idle/config/x.json": "{}",
    "other/big.bin": "0",
}


def test_one_job_plays_the_server_and_every_client(tmp_path):
    job = job_in(laid(tmp_path / "organs", FLARES), pools=NAMES)
    group = group_of(job, replace(CONFIG, image="flare:2.9"), POOLS)
    (member,) = group.members
    assert member["TrainingJobName"] == "organs-server"
    assert member["AlgorithmSpecification"]["TrainingImage"] == "flare:2.9"
    assert member["ResourceConfig"]["InstanceType"] == POOLS[0].instance_type
    assert [tag for tag in member["Tags"] if tag["Key"] == "slotq:demand"] == []
    assert group.gang == {
        "min_members": 1,
        "mandatory": ["organs-server"],
        "ends_with": "organs-server",
        "sites": {},
    }
    archive, driver = group.uploads.values()
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert {*tar.getnames()} == {*FLARES} - {"other/big.bin"}
    assert driver.rstrip().endswith(b"liver,spleen 2")
    assert b'exec nvflare simulator "$PWD" -w "$SM_MODEL_DIR" -c "$0" -t "$1" -m "$1"' in driver
    (said,) = [line for line in job.warnings if "FLARE's simulator plays" in line]
    assert said == (
        "no job.json says what a member runs, so FLARE's simulator plays server, liver, spleen in "
        "the one job organs-server; no pool of a client is used, and resource_spec has no effect"
    )
    assert any(line.startswith("other/ of organs goes to no site") for line in job.warnings)


def test_all_means_the_queues_pools_here_too(tmp_path):
    files = {
        "meta.json": {"name": "n", "deploy_map": {"app": ["@ALL"]}},
        "app/config/config_fed_server.json": "{}",
        "app/config/config_fed_client.yml": "",
    }
    job = job_in(laid(tmp_path, files), pools=NAMES)
    command = job.apps[tmp_path.name].command
    assert command[-2:] == ["site-1,site-2", "2"]


def test_an_image_is_needed(tmp_path):
    job = job_in(laid(tmp_path, FLARES), pools=NAMES)
    with pytest.raises(
        NotConfigured, match="image is not set: give --image URI of an image that has"
    ):
        group_of(job, CONFIG, POOLS)


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (
            "agg/config/config_fed_server.conf",
            "agg is deployed to 'server' and has neither config/config_fed_server.json",
        ),
        (
            "org/config/config_fed_client.json",
            "org is deployed to 'liver' and has neither config/config_fed_client.json",
        ),
    ],
)
def test_an_app_without_the_configuration_of_its_role_is_refused(tmp_path, lost, said):
    files = {name: text for name, text in FLARES.items() if name != lost}
    with pytest.raises(InvalidRequest, match=said):
        job_in(laid(tmp_path, files), pools=NAMES)


def test_apps_with_a_request_run_it(tmp_path):
    meta = {"name": "n", "deploy_map": {"app": ["@ALL"]}}
    files = {
        "meta.json": meta,
        "app/config/config_fed_server.json": "{}",
        "app/source/train.py": "",
        "app/job.json": RUNS,
    }
    job = job_in(laid(tmp_path, files), pools=NAMES)
    assert list(job.meta.apps) == ["server", "site-1", "site-2"]
    assert not job.is_simulated


def test_sites_without_a_request_must_be_pools_only_where_members_run_there(tmp_path):
    files = {**FLARES, "job.json": RUNS}
    with pytest.raises(InvalidRequest, match="site 'liver' is no pool"):
        job_in(laid(tmp_path, files), pools=NAMES)
