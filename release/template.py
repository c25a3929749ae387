"""The template as it is deployed from a bucket: what `sam build` has made, with the code's places.

CloudFormation itself carries out the template's transform (`AWS::Serverless-2016-10-31`), in each
update anew. A template that was transformed here would never deploy the API's changes again, and
would have forgotten to ask for VpcEndpointIds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from samcli.yamlhelper import yaml_parse

PLACES = ("CodeUri", "ContentUri")
"""The properties that name a built folder."""
PREFIX = "slotq/"
"""Where the code lies in its bucket."""
CODE_BUCKET = "CodeBucket"
"""The template's parameter for its bucket."""
_CODE_BUCKET = {
    "Type": "String",
    "MinLength": 3,
    "Description": "The bucket in this region that holds the code, as `slotq deploy` fills it.",
}


def packaged(built: Path, version: str, archived: Callable[[Path], Path]) -> dict[str, Any]:
    """The template of the built folder. `archived`: packs a folder with code."""
    template: dict[str, Any] = yaml_parse((built / "template.yaml").read_text())
    template["Metadata"] = {"SlotQ": {"Version": version}}
    template["Parameters"][CODE_BUCKET] = _CODE_BUCKET
    del template["Globals"]["Function"]["CodeUri"]  # Each function names its own.
    for resource in template["Resources"].values():
        resource.pop("Metadata", None)  # For sam and for checks.
        properties = resource.get("Properties", {})
        for place in PLACES:
            if place in properties:
                archive = archived(built / properties[place])
                properties[place] = {
                    "Bucket": {"Ref": CODE_BUCKET},
                    "Key": f"{PREFIX}{archive.name}",
                }
    return template
