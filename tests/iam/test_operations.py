"""The layer's service descriptions have exactly the operations that the queue calls."""

import shutil
from pathlib import Path

import botocore
import botocore.session
from botocore.loaders import Loader

from tests.built.layer import build_layer


def test_the_layers_clients_know_exactly_the_called_operations(
    life, views, campaign, notifier_calls, step_calls
):
    called = life.operations | views.operations | campaign.operations
    called |= notifier_calls.operations | step_calls.operations
    known = {(service, each) for service, names in build_layer.OPERATIONS.items() for each in names}
    assert called == known


def test_clients_can_be_made_of_what_the_layer_keeps(tmp_path):
    """With botocore as it is installed here; `make validate` looks at the layer itself."""
    whole, data = Path(botocore.__file__).parent / "data", tmp_path / "data"
    data.mkdir()
    for path in whole.iterdir():
        if path.name in build_layer.KEPT:
            shutil.copytree(path, data / path.name)
        elif path.is_file():
            shutil.copy(path, data)
    build_layer.trim(data)
    session = botocore.session.Session()
    loader = Loader(extra_search_paths=[str(data)], include_default_search_paths=False)
    session.register_component("data_loader", loader)
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    for service, operations in build_layer.OPERATIONS.items():
        client = session.create_client(service, region_name="eu-west-1", **keys)
        assert set(client.meta.service_model.operation_names) == operations
