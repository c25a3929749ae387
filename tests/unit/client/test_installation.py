"""Each way to install slotq, and the command that adds an extra to it."""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
from importlib import metadata
from pathlib import Path

import pytest

from slotq import installation
from slotq.errors import NotConfigured
from slotq.installation import (
    editable_folder,
    install_command,
    needs_extra,
    require,
    requirements,
    source,
)

PACKAGES = ["aws-lambda-powertools[tracer]<4,>=3.20", "moto[s3,server]<6,>=5.2"]
METADATA = {
    "slotq": """\
Requires-Dist: slotq-core==0.2.0
Requires-Dist: click>=8.1
Requires-Dist: matplotlib>=3.9; extra == "plot"
Requires-Dist: slotq-core[aws]==0.2.0; extra == "local"
Requires-Dist: moto[s3,server]<6,>=5.2; extra == "local"
""",
    "slotq-core": """\
Requires-Dist: pydantic<3,>=2.11
Requires-Dist: aws-lambda-powertools[tracer]<4,>=3.20; extra == "aws"
""",
}
SUBFOLDER = {"slotq": "client_sdk", "slotq-core": "layers/core"}
WHEEL = {"slotq": "slotq-0.2.0-py3-none-any.whl", "slotq-core": "slotq_core-0.2.0-py3-none-any.whl"}


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install both distributions with what direct_url.json says of each."""
    site = tmp_path / "site-packages"
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])

    def install(direct_url):
        for name, text in METADATA.items():
            folder = site / f"{name.replace('-', '_')}-0.2.0.dist-info"
            folder.mkdir(parents=True)
            head = f"Metadata-Version: 2.4\nName: {name}\nVersion: 0.2.0\n"
            (folder / "METADATA").write_text(head + text)
            if (origin := direct_url(name)) is not None:
                (folder / "direct_url.json").write_text(json.dumps(origin))

    return install


def in_folder(root, **dir_info):
    return lambda name: {"url": (root / SUBFOLDER[name]).as_uri(), "dir_info": dir_info}


def wheel_at(address):
    return lambda name: {"url": f"{address}/{WHEEL[name]}", "archive_info": {}}


def from_git(address):
    return lambda name: {
        "url": address,
        "vcs_info": {"vcs": "git", "commit_id": "9b48d139"},
        "subdirectory": SUBFOLDER[name],
    }


def added(*extras):
    """What the command installs."""
    words = shlex.split(install_command(*extras))
    assert words[:4] == [sys.executable, "-m", "pip", "install"]
    return words[4:]


def test_an_editable_clone_is_installed_again_with_the_extra(installed, tmp_path):
    for folder in SUBFOLDER.values():
        (tmp_path / folder).mkdir(parents=True)
    installed(in_folder(tmp_path, editable=True))
    core, client = tmp_path / "layers/core", tmp_path / "client_sdk"
    assert added("local", "plot") == ["-e", f"{core}[aws]", "-e", f"{client}[local,plot]"]
    assert added("plot") == ["-e", str(core), "-e", f"{client}[plot]"]
    assert (editable_folder(), source()) == (client, str(client))


@pytest.mark.parametrize(
    ("direct_url", "origin"),
    [
        (in_folder(Path("/gone"), editable=True), "/gone/client_sdk"),
        (in_folder(Path("/a clone")), "/a clone/client_sdk"),
        (wheel_at("file:///team/wheels"), "/team/wheels/slotq-0.2.0-py3-none-any.whl"),
        (
            lambda name: {"url": f"https://me:word@b.example/{WHEEL[name]}?X-Amz-Signature=1"},
            "https://b.example/slotq-0.2.0-py3-none-any.whl",
        ),
        (from_git("https://git.example/ml/slotq.git"), "https://git.example/ml/slotq.git"),
        (lambda _: None, "the package index that it came from"),
    ],
    ids=["folder-gone", "folder", "wheel", "signed-wheel", "git", "index"],
)
def test_elsewhere_the_packages_of_the_extra_are_named(installed, direct_url, origin):
    installed(direct_url)
    assert added("local") == PACKAGES
    assert added("local", "plot") == ["matplotlib>=3.9", *PACKAGES]
    assert (editable_folder(), source()) == (None, origin)


def test_an_environment_without_pip_is_completed_by_uv(installed, monkeypatch):
    installed(wheel_at("file:///team/wheels"))
    find = importlib.util.find_spec
    monkeypatch.setattr(
        installation, "find_spec", lambda name: None if name == "pip" else find(name)
    )
    uv = ["uv", "pip", "install", "--python", sys.executable, *PACKAGES]
    assert shlex.split(install_command("local")) == uv


def test_all_that_is_missing_is_named_at_once(installed, monkeypatch):
    installed(wheel_at("file:///team/wheels"))
    versions = {"moto": "6.0.1"}
    real = metadata.version

    def version(name):
        if name == "aws-lambda-powertools":
            raise metadata.PackageNotFoundError(name)
        return versions.get(name) or real(name)

    monkeypatch.setattr(metadata, "version", version)
    with pytest.raises(NotConfigured) as caught:
        require("local", command="slotq demo")
    said = str(caught.value)
    assert "slotq demo needs" in said
    assert "aws-lambda-powertools; moto <6,>=5.2, not 6.0.1" in said
    assert said.endswith(install_command("local"))


@pytest.mark.parametrize("failure", [ModuleNotFoundError("no", name="flask"), ImportError("flask")])
def test_an_import_that_fails_gets_the_command_too(failure):
    with (
        pytest.raises(NotConfigured, match=r"slotq demo needs .*flask"),
        needs_extra("local", command="slotq demo"),
    ):
        raise failure


def test_a_command_without_metadata_names_what_it_lacks(installed, monkeypatch):
    """slotq runs from a folder on PYTHONPATH."""

    def unknown(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", unknown)
    monkeypatch.setattr(metadata, "requires", unknown)
    assert (requirements("local"), source()) == ([], "the package index that it came from")
    with (
        pytest.raises(NotConfigured, match=r"moto, which is not installed\. Install it where"),
        needs_extra("local", command="slotq demo"),
    ):
        raise ModuleNotFoundError("no", name="moto")


def test_no_extra_of_the_real_metadata_names_a_package_of_ours():
    extras = metadata.metadata("slotq").get_all("Provides-Extra") or ()
    found = requirements(*extras)
    assert {"moto", "matplotlib", "sagemaker", "aws-lambda-powertools"} <= {it.name for it in found}
    assert not [it for it in found if it.name.startswith("slotq")]
