"""The core layer and the functions as `sam build` makes them."""

import json
import os
import struct
import subprocess
from pathlib import Path

import pytest

from tests.built.layer import build_layer
from tests.built.runtime import BUILT

MACHINES = {"x86_64": 62, "aarch64": 183}  # e_machine of the ELF header: EM_X86_64, EM_AARCH64
LAYER = BUILT / "CoreLayer" / "python"
FUNCTIONS = ("QueueManager", "Door", "Views", "Notifier", "PipelineSteps")
UNCHECKED = 1
"""The flag in a compiled file's second word: valid whatever the source's time or contents."""

pytestmark = pytest.mark.built


def machine(shared_object: Path) -> int:
    with shared_object.open("rb") as file:
        header = file.read(20)
    assert header[:4] == b"\x7fELF", f"{shared_object} is no shared object of Linux"
    return int(struct.unpack("<H", header[18:20])[0])


def test_every_extension_exists_for_both_processors():
    found = sorted(LAYER.rglob("*.so*"))
    assert any("pydantic_core" in path.name for path in found)
    for path in found:
        (processor,) = [name for name in MACHINES if f"-{name}-linux-gnu.so" in path.name]
        assert machine(path) == MACHINES[processor], path
        for other in MACHINES:
            assert path.with_name(path.name.replace(processor, other)).exists(), path


def test_every_module_is_compiled_and_stays_valid():
    """A zip file does not keep exact times, and Lambda could not write what it compiles."""
    for folder in (LAYER, *(BUILT / name for name in FUNCTIONS)):
        sources = list(folder.rglob("*.py"))
        assert sources
        for source in sources:
            compiled = source.parent / "__pycache__" / f"{source.stem}.cpython-313.pyc"
            assert struct.unpack("<I", compiled.read_bytes()[4:8]) == (UNCHECKED,), source


def test_botocores_data_is_exactly_what_the_clients_read():
    services = {path.name for path in (LAYER / "botocore" / "data").iterdir() if path.is_dir()}
    assert services == set(build_layer.KEPT)


def run(code: str) -> str:
    """Run in the Lambda's Python, with the layer and the function's code and no package of this
    machine."""
    paths = [str(BUILT / "QueueManager"), str(LAYER)]
    out = subprocess.run(
        [os.environ["SLOTQ_LAMBDA_PYTHON"], "-S", "-s", "-c", code],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(paths),
            "LAMBDA_TASK_ROOT": paths[0],
            "AWS_DEFAULT_REGION": "us-east-1",
        },
        check=False,
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert out.returncode == 0, out.stderr
    return out.stdout


def test_the_handler_imports_from_the_layer_alone():
    out = run(
        "import app, pydantic, botocore, slotq_core.api.routes, json\n"
        "print(json.dumps([m.__file__ for m in (app, pydantic, botocore, slotq_core)]))"
    )
    files = json.loads(out.splitlines()[-1])
    assert all(file.startswith(str(BUILT)) for file in files)


def test_no_dataclass_is_compiled_at_a_cold_start():
    out = run(
        "import builtins\n"
        "compiled, execute = [], builtins.exec\n"
        "def watch(source, *scopes):\n"
        "    if isinstance(source, str):\n"
        "        compiled.append(source)\n"
        "    execute(source, *scopes)\n"
        "builtins.exec = watch\n"
        "import slotq_core, app, slotq_core.api.routes\n"
        "from slotq_core.model.demand import Demand\n"
        "print([text for text in compiled if '__dataclass' in text])\n"
        "print(Demand(slots=2) == Demand(slots=2), Demand(slots=2))\n"
    )
    compiled, works = out.splitlines()
    assert compiled == "[]"
    assert works.startswith("True Demand(")


def test_the_layers_clients_work_as_with_the_whole_botocore():
    """Requests are checked and endpoints found as with the tests' whole botocore of the same
    version."""
    import botocore
    from botocore.session import get_session

    code = (
        "import botocore, json\n"
        "from botocore.session import get_session\n"
        "found = {}\n"
        "for service, names in OPERATIONS.items():\n"
        "    for region in ('us-east-1', 'cn-north-1', 'us-gov-west-1'):\n"
        "        keys = dict(aws_access_key_id='k', aws_secret_access_key='s')\n"
        "        client = get_session().create_client(service, region, **keys)\n"
        "        shapes = {}\n"
        "        for name in names:\n"
        "            model = client.meta.service_model.operation_model(name)\n"
        "            errors = sorted(shape.name for shape in model.error_shapes)\n"
        "            given = {n: str(s) for n, s in sorted(model.input_shape.members.items())}\n"
        "            told = model.output_shape.members if model.output_shape else {}\n"
        "            shapes[name] = [given, sorted(told), errors]\n"
        "        found[f'{service} {region}'] = [client.meta.endpoint_url, shapes]\n"
    )
    operations = {name: sorted(names) for name, names in build_layer.KEPT.items()}
    code = f"OPERATIONS = {operations!r}\n{code}"
    out = run(f"{code}print(json.dumps([botocore.__version__, found]))")
    whole: dict = {"get_session": get_session, "botocore": botocore}
    exec(code, whole)
    assert json.loads(out.splitlines()[-1]) == [botocore.__version__, whole["found"]]


def test_the_layer_fits():
    """Lambda allows 250 MB for function and layers, unpacked."""
    size = sum(path.stat().st_size for path in LAYER.rglob("*") if path.is_file())
    assert size < 60_000_000
