"""Builds the core layer, which Lambda unpacks into /opt: the folder `python`.

A cold start is mostly imports, and this script makes them cheap (benchmarks/cold_start.py measures
them):

- It compiles every module, because Lambda cannot keep what it compiles. Python does not check the
  compiled files against their sources' times, which a zip file does not keep exactly. The compiled
  code knows its lines but not its columns, which only mark a part of a traceback's line.
- It also compiles the generated methods of dataclasses (prepared.py).
- It keeps only the parts of botocore's service descriptions that the queue calls, because each
  client reads the whole description of its service. tests/iam compares the list with the calls.
  It also removes botocore's help texts.
- It makes plain classes of pydantic's hundred descriptions of its schemas, which are for type
  checkers only.

One layer serves both processors: the file names of compiled extensions contain the processor, so
the files lie side by side and Python loads its own.

    python3.13 build_layer.py FOLDER
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RUNTIME = "3.13"
PYTHON = (sys.executable, "-X", "no_debug_ranges")
"""This Python; what it compiles knows no columns."""
PLATFORMS = {
    "x86_64": ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    "aarch64": ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"),
}
"""The wheel platforms that run on Lambda's Amazon Linux 2023, by processor."""

LAMBDA = "/opt/python"
"""Where Lambda unpacks the layer."""

OPERATIONS: Mapping[str, frozenset[str]] = {
    "dynamodb": frozenset(
        {
            "BatchGetItem",
            "DeleteItem",
            "GetItem",
            "PutItem",
            "Query",
            "Scan",
            "TransactWriteItems",
            "UpdateItem",
        }
    ),
    "events": frozenset({"PutEvents"}),
    "lambda": frozenset({"Invoke"}),
    "s3": frozenset({"GetObject", "PutObject"}),
    "sagemaker": frozenset(
        {
            "CreateProcessingJob",
            "CreateTrainingJob",
            "DescribeProcessingJob",
            "DescribeTrainingJob",
            "DescribeTrainingPlan",
            "ListTags",
            "ListProcessingJobs",
            "ListTrainingJobs",
            "DescribePipelineExecution",
            "SendPipelineExecutionStepFailure",
            "SendPipelineExecutionStepSuccess",
            "StopProcessingJob",
            "StopTrainingJob",
            "UpdateTrainingJob",
        }
    ),
    "secretsmanager": frozenset({"GetSecretValue"}),
    "sns": frozenset({"Publish"}),
    "sqs": frozenset({"SendMessage"}),
    "ssm": frozenset({"GetParameter"}),
    "stepfunctions": frozenset({"SendTaskFailure", "SendTaskHeartbeat", "SendTaskSuccess"}),
}
"""The operations that the queue calls, by service. The layer's clients know no others."""

OF_OTHERS: Mapping[str, frozenset[str]] = {
    "xray": frozenset({"GetSamplingRules", "GetSamplingTargets"}),
}
"""Operations that packages of the layer may call. The X-Ray SDK creates this client at import,
unless LAMBDA_TASK_ROOT shows that it is in Lambda."""

KEPT: Mapping[str, frozenset[str]] = {**OPERATIONS, **OF_OTHERS}

NEVER_READ = ("examples-1", "paginators-1", "waiters-2", "completions-1")
"""Kinds of files that the clients never read."""


NO_PROSE = '''\
"""Replaces botocore's own, which imports an HTML parser for the texts of help(). Lambda needs none
of these texts."""


class _NoProse(str):
    def __new__(cls, *_, **__):
        return super().__new__(cls)


ClientMethodDocstring = PaginatorDocstring = WaiterDocstring = _NoProse
'''

TYPED_DICT = """\
if sys.version_info < (3, 12):
    from typing_extensions import TypedDict
else:
    from typing import TypedDict
"""
"""What pydantic_core/core_schema.py derives its descriptions from: each parses its annotations."""

PLAIN_DICT = """\
class TypedDict(dict):
    def __init_subclass__(cls, *, total=True):
        pass
"""

NAMES = frozenset({*KEPT, "api.sagemaker", "states"})
"""The services' names in endpoints.json."""


def build(folder: Path) -> None:
    """Build the layer's folder `python`."""
    shutil.rmtree(folder, ignore_errors=True)
    first, *others = PLATFORMS
    install(folder, first)
    for other in others:
        add_extensions(folder, other)
    shutil.copytree(
        HERE / "python" / "slotq_core",
        folder / "slotq_core",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    trim(folder / "botocore" / "data")
    (folder / "botocore" / "docs" / "__init__.py").write_text("")
    (folder / "botocore" / "docs" / "docstring.py").write_text(NO_PROSE)
    simplify(folder / "pydantic_core" / "core_schema.py")
    prepare_dataclasses(folder)
    compile_all(folder)


def install(folder: Path, processor: str) -> None:
    """Install the pinned packages as wheels for one processor."""
    platforms = (f"--platform={platform}" for platform in PLATFORMS[processor])
    subprocess.run(  # pip, with arguments from this file # nosec B603
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--quiet"),
            *("--disable-pip-version-check", "--root-user-action=ignore"),
            *("--no-deps", "--no-compile", "--only-binary=:all:", "--implementation=cp"),
            *(f"--python-version={RUNTIME}", *platforms, f"--target={folder}"),
            *("--requirement", str(HERE / "python" / "requirements.txt")),
        ],
        check=True,
    )
    shutil.rmtree(folder / "bin", ignore_errors=True)


def add_extensions(folder: Path, processor: str) -> None:
    """Add the compiled extensions for another processor. Exits if a file name does not contain its
    processor."""
    with tempfile.TemporaryDirectory() as work:
        install(Path(work), processor)
        for extension in Path(work).rglob("*.so"):
            beside = folder / extension.relative_to(work)
            if beside.exists():
                raise SystemExit(f"{beside.name} does not name its processor: build two layers")
            shutil.copy2(extension, beside)


def trim(data: Path) -> None:
    """Keep only the parts of botocore's data that the clients of these services read."""
    for service in [folder for folder in data.iterdir() if folder.is_dir()]:
        if service.name not in KEPT:
            shutil.rmtree(service)
            continue
        *older, latest = sorted(service.iterdir())
        for version in older:
            shutil.rmtree(version)
        for file in list(latest.iterdir()):
            trim_file(file, KEPT[service.name])
    endpoints = data / "endpoints.json"
    endpoints.write_text(json.dumps(known_endpoints(json.loads(endpoints.read_text()))))


def trim_file(file: Path, operations: frozenset[str]) -> None:
    kind, _, form = file.name.partition(".")
    if kind in NEVER_READ:
        file.unlink()
    elif kind == "service-2" and form in {
        "json",
        "json.gz",
    }:  # Beside it may lie small corrections.
        text = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        file.unlink()
        (file.parent / "service-2.json").write_text(
            json.dumps(described(json.loads(text), operations))
        )


def described(service: Mapping[str, Any], operations: frozenset[str]) -> dict[str, Any]:
    """A service's description with only these operations and the shapes that they use, without
    prose."""
    missing = operations - set(service["operations"])
    if missing:
        raise SystemExit(f"botocore knows no {', '.join(sorted(missing))}")
    kept = {name: silent(service["operations"][name]) for name in sorted(operations)}
    names = set(reached(kept.values(), service["shapes"]))
    shapes = {name: silent_shape(service["shapes"][name]) for name in sorted(names)}
    rest = {key: value for key, value in service.items() if key != "documentation"}
    return {**rest, "operations": kept, "shapes": shapes}


def reached(nodes: Any, shapes: Mapping[str, Any]) -> Iterator[str]:
    """The names of all shapes that these nodes refer to, directly or indirectly."""
    seen: set[str] = set()
    ahead = list(nodes)
    while ahead:
        node = ahead.pop()
        if isinstance(node, Mapping):
            name = node.get("shape")
            if isinstance(name, str) and name in shapes and name not in seen:
                seen.add(name)
                ahead.append(shapes[name])
            ahead += node.values()
        elif isinstance(node, list):
            ahead += node
    return iter(seen)


def silent(node: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key != "documentation"}


def silent_shape(shape: Mapping[str, Any]) -> dict[str, Any]:
    """A shape without prose. A member named `documentation` stays."""
    kept = silent(shape)
    if "members" in kept:
        kept["members"] = {name: silent(member) for name, member in kept["members"].items()}
    return kept


def simplify(schemas: Path) -> None:
    """Make plain classes of pydantic's descriptions of its schemas: 6 % of the API's cold start."""
    text = schemas.read_text()
    if text.count(TYPED_DICT) != 1:
        raise SystemExit(f"{schemas.name} is another than build_layer.py knows")
    schemas.write_text(text.replace(TYPED_DICT, PLAIN_DICT))


def known_endpoints(endpoints: Mapping[str, Any]) -> dict[str, Any]:
    """Every partition and region, with only the services that are called."""
    partitions = [
        {
            **partition,
            "services": {
                name: service for name, service in partition["services"].items() if name in NAMES
            },
        }
        for partition in endpoints["partitions"]
    ]
    return {**endpoints, "partitions": partitions}


NOTE_TEXTS = """
import builtins, dataclasses, importlib, pkgutil, sys
texts = set()
def note(text, *scopes):
    texts.add(text)
    builtins.exec(text, *scopes)
dataclasses.exec = note
import botocore.session, slotq_core, slotq_core.prepared
from aws_lambda_powertools import Logger, Metrics, Tracer
for module in pkgutil.walk_packages(slotq_core.__path__, "slotq_core."):
    importlib.import_module(module.name)
slotq_core.prepared.keep(texts)
"""


def prepare_dataclasses(folder: Path) -> None:
    """Compile and keep the generated methods of the layer's dataclasses (prepared.py)."""
    shutil.copy2(HERE / "prepared.py", folder / "slotq_core")
    subprocess.run(  # this Python, with a text from this file # nosec B603
        [*PYTHON, "-S", "-s", "-B", "-c", NOTE_TEXTS],
        env={"PYTHONPATH": str(folder), "AWS_DEFAULT_REGION": "us-east-1"},
        check=True,
    )
    package = folder / "slotq_core" / "__init__.py"
    use = "\nfrom slotq_core import prepared\n\nprepared.use()\n"
    package.write_text(package.read_text() + use)


def compile_all(folder: Path) -> None:
    """Compile the modules as they will lie in Lambda: no compiled file names this machine."""
    subprocess.run(  # this Python # nosec B603
        [
            *(*PYTHON, "-m", "compileall", "-q", "--invalidation-mode=unchecked-hash"),
            *("-s", str(folder), "-p", LAMBDA, str(folder)),
        ],
        check=True,
    )


if __name__ == "__main__":
    if sys.version_info[:2] != tuple(map(int, RUNTIME.split("."))):
        raise SystemExit(f"the layer is compiled by Python {RUNTIME}, not by {sys.version}")
    build(Path(sys.argv[1]))
