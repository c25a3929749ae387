"""The OpenAPI document: the table of routes, with the pydantic models of the `wire` modules.

`make openapi` writes it to docs/openapi.json. A test compares the document with that file and with
the routes. The Lambda does not use this module: describing the API costs more than serving it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from slotq_core import __version__, names
from slotq_core.api.routes import METHODS, ROUTES
from slotq_core.api.table.route import Parameter, Route
from slotq_core.api.tags import LONGEST
from slotq_core.operations.jobs.group_lookup import MOST_GROUPS
from slotq_core.operations.status import MOST_LOOKED_AT
from slotq_core.wire import (
    configuration as wire_configuration,
)
from slotq_core.wire import (
    job_changes as wire_changes,
)
from slotq_core.wire import (
    pool_definition as definitions,
)
from slotq_core.wire import (
    record as wire_record,
)
from slotq_core.wire import (
    submission as wire_submission,
)
from slotq_core.wire.base import ErrorView
from slotq_core.wire.document import contents
from slotq_core.wire.document import views as wire_document
from slotq_core.wire.groups.group_submission import MOST_MEMBERS, GroupBody
from slotq_core.wire.groups.members import MOST_JOBS, BatchBody
from slotq_core.wire.groups.views import GroupsView, GroupView
from slotq_core.wire.scenario.views import ScenarioView
from slotq_core.wire.training.training_request import ON_INSTANCES, PROGRAMS, Shape, known_shape
from slotq_core.wire.views import about, jobs, nodes, pools, usage

_MODELS: tuple[type[BaseModel], ...] = (
    wire_submission.SubmissionBody,
    wire_changes.AmendmentBody,
    wire_changes.BulkBody,
    wire_changes.OutcomesView,
    BatchBody,
    GroupBody,
    GroupsView,
    GroupView,
    jobs.RequestView,
    jobs.JobView,
    jobs.QueueView,
    pools.PoolsView,
    nodes.NodesView,
    wire_configuration.PoolBody,
    wire_configuration.LimitsBody,
    wire_configuration.LimitsView,
    wire_document.ConfigurationBody,
    wire_document.ConfigurationView,
    wire_document.AppliedView,
    wire_document.ProjectsView,
    wire_document.QuotasView,
    wire_record.ChangesView,
    usage.UsagePageView,
    usage.AttemptsPageView,
    ScenarioView,
    about.AboutView,
    about.MeView,
    about.DoctorView,
    about.NodeReportView,
    ErrorView,
)
_REF = "#/components/schemas/{model}"

_ERRORS = {
    400: "Malformed, or it could never run: `message` has a line for each fault, with its "
    "field and what would be right; `field` is the first of them",
    403: "Not signed by an IAM principal, or not allowed",
    404: "No such pool, project or node, or no such job or group that the caller may see",
    409: (
        "The name is taken or in use; or the request came too late, because the job or the "
        "configuration has changed"
    ),
    429: "A limit is reached: `code` names it; the header Retry-After says when to try again (s)",
    500: "The queue failed; its log has the details under the request's id",
    503: "A service that the queue needs does not answer; it is safe to repeat the request",
}

_UNCHANGED = (
    f"What the caller has by one of these tags is at most {LONGEST} s old; there is no body. With "
    "`*`: an answer exists"
)
_IF_NONE_MATCH: dict[str, Any] = {
    "name": "If-None-Match",
    "in": "header",
    "description": "ETags of answers to the same question that the caller still has",
    "schema": {"type": "string"},
}


def document() -> dict[str, Any]:
    """The document, in JSON's own types."""
    _, schemas = models_json_schema([(model, "validation") for model in _MODELS], ref_template=_REF)
    _add_sagemakers_fields(schemas["$defs"]["SubmissionBody"])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "SlotQ",
            "version": __version__,
            "summary": "A priority queue in front of SageMaker training",
            "description": "Sign every request with AWS Signature V4 (execute-api). The signer "
            "is the submitter. Where the queue is shared between projects, the signer's role in a "
            "job's project decides what the signer may see and change.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"sigv4": []}],
        "paths": {_in_braces(path): _path(path) for path in METHODS},
        "components": {
            "schemas": dict(sorted(schemas["$defs"].items())),
            "securitySchemes": {
                "sigv4": {
                    "type": "apiKey",
                    "name": "Authorization",
                    "in": "header",
                    "x-amazon-apigateway-authtype": "awsSigv4",
                }
            },
        },
    }


def _add_sagemakers_fields(body: dict[str, Any]) -> None:
    """Add the SageMaker fields that admission checks and the queue itself does not read."""
    request = known_shape()
    for name, shape in request.members.items():
        body["properties"].setdefault(name, _schema(shape))
    body["properties"]["RoleArn"] = {"type": "string", "minLength": 1, "maxLength": 2048}
    body["properties"]["AlgorithmSpecification"]["oneOf"] = [
        {"required": [name], "properties": {name: {"minLength": 1}}} for name in PROGRAMS
    ]
    needed = {*body["required"], *request.required, *ON_INSTANCES}
    body["required"] = [name for name in body["properties"] if name in needed]


def _schema(shape: Shape) -> dict[str, Any]:
    match shape.kind:
        case "structure":
            members = {name: _schema(member) for name, member in shape.members.items()}
            needed = [name for name in members if name in shape.required]
            schema = {"type": "object", "properties": members}
            return {**schema, "required": needed} if needed else schema
        case "list":
            return {"type": "array", "items": _schema(shape.item or Shape(kind="string"))}
        case "map":
            values = _schema(shape.item or Shape(kind="string"))
            return {"type": "object", "additionalProperties": values}
    return {"type": "number" if shape.kind == "float" else shape.kind}


def _parameter(described: str, rule: Mapping[str, Any], *, name: str = "name") -> dict[str, Any]:
    schema = {"type": "string", **rule}
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": described,
        "schema": schema,
    }


_POOLS = {"pattern": f"^{definitions.NAME.pattern}$"}

_NAMED: Mapping[str, list[dict[str, Any]]] = {
    "/jobs/": [
        _parameter(
            "The job's name: its TrainingJobName, or processing: and its ProcessingJobName",
            names.JOB_SCHEMA,
        )
    ],
    "/groups/": [_parameter("The group's name", names.SCHEMA)],
    "/pools/": [_parameter("The pool's name", _POOLS)],
    "/projects/": [_parameter("The project's name", _POOLS)],
    "/nodes/": [
        _parameter("The pool's name", _POOLS, name="pool"),
        _parameter("The node's name", names.SCHEMA),
    ],
}
"""The named parts of paths that begin so."""

NUMBERS = {
    "MOST_AT_ONCE": wire_changes.MOST_AT_ONCE,
    "MOST_GROUPS": MOST_GROUPS,
    "MOST_JOBS": MOST_JOBS,
    "MOST_LOOKED_AT": MOST_LOOKED_AT,
    "MOST_MEMBERS": MOST_MEMBERS,
}
"""The numbers that replace `{MOST_…}` in the texts of the table of routes."""


def _path(path: str) -> dict[str, Any]:
    """A path with its methods."""
    named = [tag for begin, tags in _NAMED.items() if path.startswith(begin) for tag in tags]
    methods = {route.method.lower(): _operation(route) for route in ROUTES if route.path == path}
    return {"parameters": named, **methods} if named else {**methods}


def _operation(route: Route) -> dict[str, Any]:
    texts = {
        "description": route.description.format(**NUMBERS),
        "parameters": [*map(_in_query, route.query), *([_IF_NONE_MATCH] if route.tagged else ())],
        "requestBody": _body(route.body),
    }
    return {
        "operationId": route.operation,
        "summary": route.summary.format(**NUMBERS),
        **{key: value for key, value in texts.items() if value},
        "responses": _responses(route),
    }


def _in_query(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.meaning.format(**NUMBERS),
        "schema": dict(parameter.schema),
    }


def _body(model: str) -> dict[str, Any]:
    """The body of that model. A project's are keys of the document, which no model has."""
    if not model:
        return {}
    content = (
        {"application/json": {"schema": _project()}} if model == "ProjectBody" else _content(model)
    )
    return {"required": True, "content": content}


def _project() -> dict[str, Any]:
    keys = contents.SECTIONS["projects"].keys()
    return {
        "type": "object",
        "description": "Keys of the project's entry in the document; null is a key's default",
        "properties": {
            **{key: {} for key in keys if key != "name"},
            "revision": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]},
        },
        "additionalProperties": False,
    }


def _responses(route: Route) -> dict[str, Any]:
    answers: dict[int, dict[str, Any]] = {
        returned.status: {"description": returned.meaning, "content": _content(returned.model)}
        for returned in route.returns
    }
    if route.tagged:
        answers[304] = {"description": _UNCHANGED}
    for error in (*route.errors, 500, 503):
        answers[error] = {"description": _ERRORS[error], "content": _content("ErrorView")}
    return {str(code): answer for code, answer in answers.items()}


def _in_braces(path: str) -> str:
    return path.replace("<", "{").replace(">", "}")


def _content(model: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(model=model)}}}


if __name__ == "__main__":
    json.dump(document(), sys.stdout, indent=2)
    sys.stdout.write("\n")
