"""The JSON schema of a configuration document, for editors.

`make schemas` writes docs/configuration.schema.json; `slotq config schema` prints it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from slotq_core.wire.configuration import LimitsBody
from slotq_core.wire.document.contents import ConfigurationDocument


class _Quiet(GenerateJsonSchema):
    """Leaves out a default that JSON has no form for, without a warning."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.ignored_warning_kinds = {"non-serializable-default"}


def schema() -> dict[str, Any]:
    """The schema. Editors check keys and kinds by it; the queue also checks the rules across
    sections."""
    document, limits = (
        _untitled(model.model_json_schema(schema_generator=_Quiet))
        for model in (ConfigurationDocument, LimitsBody)
    )
    document["$defs"] |= limits.pop("$defs", {})
    limits["properties"].pop("revision")
    document["properties"]["limits"] = limits
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **document,
        "title": "The configuration of a SlotQ queue",
    }


def _untitled(value: Any) -> Any:
    """Remove the titles: they only repeat the names."""
    if isinstance(value, list):
        return [_untitled(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _untitled(own)
        for key, own in value.items()
        if not (key == "title" and isinstance(own, str))
    }


if __name__ == "__main__":
    json.dump(schema(), sys.stdout, indent=2)
    sys.stdout.write("\n")
