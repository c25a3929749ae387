"""The guide about request rules: its example is a project of a configuration document."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from slotq_core.wire.document.contents import read
from slotq_core.wire.document.sections import RequestsSection
from slotq_core.wire.document.writing import written

PAGE = (Path(__file__).parents[3] / "docs" / "request-rules.md").read_text()
POOL = {"name": "p5", "capacity": 2, "instance_type": "ml.p5.48xlarge"}


def test_the_example_can_be_applied_and_is_written_back_as_it_stands():
    (block,) = re.findall(r"^```yaml project\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    project = yaml.safe_load(block)
    (back,) = written(read({"pools": [POOL], "projects": [project]}))["projects"]
    assert back == project


def test_every_key_is_on_the_page():
    assert [key for key in RequestsSection.model_fields if f"`{key}`" not in PAGE] == []
