"""What schemathesis cannot know: the queue's instance types and jobs.

Without these, every submission is refused for its instance type, and no job is ever found.
"""

from __future__ import annotations

import itertools
import zlib
from typing import Any

import schemathesis
from schemathesis import GenerationMode

_numbers = itertools.count()
KNOWN = ("job1", "job2", "job3")


@schemathesis.hook
def before_call(context: Any, case: Any, _kwargs: dict[str, Any]) -> None:
    name = (case.path_parameters or {}).get("name")
    if name == "":  # from an answer about a job without one: the path would be another route's
        case.path_parameters["name"] = KNOWN[0]
    if case.meta is None or case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    resources = case.body.get("ResourceConfig") if isinstance(case.body, dict) else None
    chance = zlib.crc32(f"{case.body}{case.path_parameters}".encode(errors="replace")) % 4
    if isinstance(resources, dict) and chance:
        resources.pop("InstanceGroups", None)
        resources.update(InstanceType="ml.p4d.24xlarge", InstanceCount=1)
        if chance == 1:  # otherwise the name may be taken
            case.body["TrainingJobName"] = f"fuzzed-{next(_numbers)}"
            case.body["Tags"] = [{"Key": "priority", "Value": str(len(str(case.body)) % 9)}]
    if case.path_parameters and chance:
        case.path_parameters["name"] = KNOWN[chance - 1]
