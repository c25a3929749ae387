"""The folder of a release: its template makes the stack that `sam deploy` makes."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from release.terraform_module import variable_name
from slotq.deployment import release_folder
from slotq.deployment.release_folder import CODE_BUCKET, SUMS, TEMPLATE
from tests.built.test_transformed import transformed

ROOT = Path(__file__).parents[2]
VERSION = "9.8.7"
MOST_OF_A_TEMPLATE = 1_000_000
"""Bytes of a template in a bucket: CloudFormation's limit."""

pytestmark = pytest.mark.built


def built(folder: Path) -> Path:
    command = [".venv/sam/bin/python", "-m", "release", VERSION, folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("release") / "slotq")


@pytest.fixture(scope="module")
def template(folder: Path) -> dict[str, Any]:
    return json.loads((folder / TEMPLATE).read_text())


def test_the_client_takes_the_folder(folder):
    release = release_folder.read(folder)
    assert release.version == VERSION
    assert CODE_BUCKET not in release.parameters
    assert (folder / "NOTES.md").read_text().startswith("## [")


def test_the_same_sources_are_the_same_bytes(folder, tmp_path):
    assert (built(tmp_path / "again") / SUMS).read_text() == (folder / SUMS).read_text()


def test_the_template_makes_the_stack_of_sam_deploy(folder, template):
    """All but the code's places: by the transform that CloudFormation carries out."""
    here = transformed()
    released = transformed(template=str(folder / TEMPLATE))
    assert released["Parameters"].pop(CODE_BUCKET)["MinLength"] == 3
    released.pop("Metadata")
    assert without_places(released) == without_places(here)
    assert len((folder / TEMPLATE).read_bytes()) < MOST_OF_A_TEMPLATE


def without_places(stack: dict[str, Any]) -> Any:
    """The layer's name is made of its place."""
    resources = stack["Resources"]
    (layer,) = (n for n, r in resources.items() if r["Type"] == "AWS::Lambda::LayerVersion")
    for resource in resources.values():
        resource["Properties"].pop("Code", None)
        resource["Properties"].pop("Content", None)
        resource.pop("Metadata", None)
    return json.loads(json.dumps(stack).replace(layer, "Layer"))


def test_every_place_is_an_archive_of_the_folder(folder, template):
    keys = set(released_keys(template))
    there = {f"slotq/{path.name}": path for path in (folder / "code").iterdir()}
    assert keys == set(there)
    for path in there.values():
        assert sha256(path.read_bytes()).hexdigest().startswith(path.stem.rpartition("-")[2])
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None


def released_keys(node: Any) -> list[str]:
    if isinstance(node, dict):
        if node.get("Bucket") == {"Ref": CODE_BUCKET}:
            return [node["Key"]]
        return [key for value in node.values() for key in released_keys(value)]
    return [key for value in node for key in released_keys(value)] if isinstance(node, list) else []


def test_no_archive_names_this_machine(folder):
    for path in (folder / "code").iterdir():
        with zipfile.ZipFile(path) as archive:
            named = [n for n in archive.namelist() if str(ROOT).encode() in archive.read(n)]
        assert named == []


PARSE = """
import hcl2, json, sys
print(json.dumps({name: hcl2.load(open(f"{sys.argv[1]}/{name}.tf")) for name in sys.argv[2:]}))
"""


@pytest.fixture(scope="module")
def module(folder: Path) -> dict[str, Any]:
    """The files of the Terraform module, as checkov's parser reads them."""
    command = [".venv/audit/bin/python", "-c", PARSE, str(folder / "terraform")]
    names = ["main", "variables", "outputs"]
    out = subprocess.run([*command, *names], cwd=ROOT, check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def blocks(file: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    return {name: body for block in file[kind] for name, body in block.items()}


def test_terraforms_variables_and_outputs_are_the_templates(module, template):
    variables = blocks(module["variables"], "variable")
    parameters = {
        name: each for name, each in template["Parameters"].items() if name != CODE_BUCKET
    }
    assert [*variables] == [variable_name(name) for name in parameters]
    (given,) = module["variables"]["locals"]
    assert set(given["parameters"][0]) == set(parameters)
    required = {name for name, body in variables.items() if "default" not in body}
    assert required == {"execution_role_arns"}
    types = {name: body["type"][0].strip("${}") for name, body in variables.items()}
    assert (types["notifications"], types["history_days"]) == ("bool", "number")
    assert (types["execution_role_arns"], types["pools"]) == ("list(string)", "string")
    outputs = blocks(module["outputs"], "output")
    assert [*outputs] == [variable_name(name) for name in template["Outputs"]]


def test_no_text_of_the_template_is_filled_in_by_terraform(module):
    bodies = {**blocks(module["variables"], "variable"), **blocks(module["outputs"], "output")}
    for body in bodies.values():
        (told,) = body["description"]
        assert "${" not in told.replace("$${", "")


@pytest.mark.skipif(not shutil.which("terraform"), reason="there is no terraform")
def test_terraform_finds_the_module_in_its_form(folder):
    command = ["terraform", "fmt", "-check", "-diff", folder / "terraform"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
