"""The OpenAPI document agrees with itself, the routes and the file in docs/."""

import json
import re
from pathlib import Path

from openapi_spec_validator import validate

from slotq_core.api.openapi import document
from slotq_core.api.routes import METHODS

ROOT = Path(__file__).parents[2]
VERBS = {"get", "post", "put", "patch", "delete"}


def test_the_file_is_up_to_date():
    written = json.loads((ROOT / "docs" / "openapi.json").read_text())
    assert written == json.loads(json.dumps(document())), "run `make openapi`"


def test_the_document_is_valid():
    validate(document())


def test_the_document_describes_exactly_the_routes():
    described = {
        path: tuple(sorted(verb.upper() for verb in operations if verb in VERBS))
        for path, operations in document()["paths"].items()
    }
    routes = {re.sub("<([a-z]+)>", r"{\1}", path): methods for path, methods in METHODS.items()}
    assert described == routes
