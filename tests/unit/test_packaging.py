"""The installed versions are the pinned ones."""

import re
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = {"slotq", "slotq-core", "slotq-training"}
NOT_PINNED = {"pip"}  # part of Python


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.skipif(Path(sys.prefix).name != ".venv", reason="not in what `make install` made")
def test_every_installed_version_is_pinned():
    text = (ROOT / "constraints/main.txt").read_text()
    pins = re.findall(r"^([A-Za-z0-9_.-]+)==([^ ;\n]+)", text, re.MULTILINE)
    pinned = {(normal(name), version) for name, version in pins}
    installed = {(normal(dist.name), dist.version) for dist in distributions()}
    loose = {(name, version) for name, version in installed - pinned if name not in OURS}
    assert {name for name, _ in loose} <= NOT_PINNED, f"not pinned: {sorted(loose)}"


@pytest.mark.parametrize(
    "path",
    [
        "constraints/main.txt",
        "constraints/sagemaker3.txt",
        "constraints/audit.txt",
        "constraints/awscli.txt",
        "constraints/sam.txt",
        "constraints/toolkit.txt",
        "constraints/torch.txt",
        "layers/core/python/requirements.txt",
    ],
)
def test_pins_have_no_addresses(path):
    text = (ROOT / path).read_text()
    assert "://" not in text
    assert "--" not in text
    assert "@" not in text
