"""The layer's trimmed descriptions of AWS's services still make clients."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import botocore
import botocore.session
import pytest
from botocore.loaders import Loader
from moto import mock_aws

from tests.built.layer import build_layer

DATA = Path(botocore.__file__).parent / "data"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[botocore.session.Session]:
    folder = tmp_path_factory.mktemp("layer") / "data"
    folder.mkdir()
    for path in DATA.iterdir():
        if path.is_file():
            shutil.copy2(path, folder)
        elif path.name in build_layer.KEPT:
            shutil.copytree(path, folder / path.name)
    build_layer.trim(folder)
    made = botocore.session.Session()
    loader = Loader(extra_search_paths=[str(folder)], include_default_search_paths=False)
    made.register_component("data_loader", loader)
    with mock_aws():
        yield made


@pytest.mark.parametrize("service", build_layer.OPERATIONS)
def test_a_client_knows_exactly_the_called_operations(session, service):
    client = session.create_client(service, region_name="us-east-1")
    assert {*client.meta.service_model.operation_names} == build_layer.OPERATIONS[service]


def test_a_report_can_be_read(session):
    everything = botocore.session.get_session().create_client("s3", region_name="us-east-1")
    everything.create_bucket(Bucket="bucket")
    everything.put_object(Bucket="bucket", Key="_slotq/job1/report.json", Body=b"{}")
    client = session.create_client("s3", region_name="us-east-1")
    found = client.get_object(Bucket="bucket", Key="_slotq/job1/report.json", Range="bytes=0-9")
    assert found["Body"].read() == b"{}"
    assert found["LastModified"].tzinfo is not None
