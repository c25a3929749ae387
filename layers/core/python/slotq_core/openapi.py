"""The OpenAPI document of `api`, from the pydantic models of the `wire` modules.

`make openapi` writes it to docs/openapi.json. A test compares the document with that file and with
the routes. The Lambda does not use this module: describing the API costs more than serving it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from slotq_core import names
from slotq_core.api import MOST_CHANGES, MOST_JOBS
from slotq_core.model.jobs import JobState
from slotq_core.version import __version__
from slotq_core.wire import (
    amendment as wire_amendment,
)
from slotq_core.wire import (
    bulk_changes as wire_bulk,
)
from slotq_core.wire import (
    configuration as wire_configuration,
)
from slotq_core.wire import (
    pool_definition as definitions,
)
from slotq_core.wire import (
    submission as wire_submission,
)
from slotq_core.wire import (
    views as wire,
)
from slotq_core.wire.training_request import ON_INSTANCES, PROGRAMS, Shape, known_shape

_MODELS: tuple[type[BaseModel], ...] = (
    wire_submission.SubmissionBody,
    wire_amendment.AmendmentBody,
    wire_bulk.BulkBody,
    wire_bulk.OutcomesView,
    wire.RequestView,
    wire.JobView,
    wire.QueueView,
    wire.PoolsView,
    wire_configuration.PoolBody,
    wire_configuration.LimitsBody,
    wire_configuration.LimitsView,
    wire_configuration.ChangesView,
    wire.AboutView,
    wire.DoctorView,
    wire.ErrorView,
)
_REF = "#/components/schemas/{model}"

_ERRORS = {
    400: "Malformed, or it could never run: `message` tells each fault with its field and what is "
    "right, on a line each; `field` is the first of them",
    403: "Not signed by an IAM principal, or not allowed to",
    404: "There is no such job or pool",
    409: "The name is taken, or in use; or it is too late: what it was about has moved on",
    429: "A limit is reached: `code` names it, and the header Retry-After says when again (s)",
    500: "The queue has failed; its log says more under the request's id",
    503: "A service that the queue needs does not answer; the same request again is safe",
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
            "description": "Every request is signed with AWS Signature V4 (execute-api); "
            "who signed it is the submitter.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"sigv4": []}],
        "paths": {
            "/add-job": {"post": _add_job()},
            "/jobs": {"get": _list_jobs(), "patch": _change_jobs()},
            "/jobs/{name}": {
                "parameters": [_NAME],
                "get": _get_job(),
                "delete": _cancel_job(),
                "patch": _amend_job(),
            },
            "/jobs/{name}/request": {"parameters": [_NAME], "get": _get_request()},
            "/pools": {"get": _list_pools()},
            "/pools/{name}": {
                "parameters": [_POOL],
                "patch": _set_pool(),
                "delete": _remove_pool(),
            },
            "/limits": {"get": _get_limits(), "patch": _set_limits()},
            "/changes": {"get": _list_changes()},
            "/version": {"get": _about()},
            "/doctor": {"get": _examine(), "post": _mend()},
        },
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
    """Add the fields of SageMaker's that the door checks and the queue itself does not read."""
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


_NAME = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "The job's name: its TrainingJobName",
    "schema": {"type": "string", **names.SCHEMA},
}

_POOL = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "The pool's name",
    "schema": {"type": "string", "pattern": f"^{definitions.NAME.pattern}$"},
}


def _add_job() -> dict[str, Any]:
    return {
        "operationId": "addJob",
        "summary": "Submit a training job",
        "description": "The body is a CreateTrainingJob request; the queue's settings travel "
        "as its tags. The same body again, while the job lives, is answered with the same job.",
        "requestBody": {"required": True, "content": _content("SubmissionBody")},
        "responses": _responses(
            202, "The job is kept, and will run", "JobView", 400, 403, 409, 429
        ),
    }


def _list_jobs() -> dict[str, Any]:
    states = {"type": "array", "items": {"type": "string", "enum": list(JobState)}}
    limit = {"type": "integer", "minimum": 1, "maximum": MOST_JOBS, "default": MOST_JOBS}
    return {
        "operationId": "listJobs",
        "summary": "The jobs in the order of the queue: running, waiting by place, ended",
        "parameters": [
            {
                "name": "state",
                "in": "query",
                "description": "Only jobs in these states (repeated, or comma separated)",
                "schema": states,
            },
            {"name": "limit", "in": "query", "description": "At most so many", "schema": limit},
            *_filters(),
        ],
        "responses": _responses(200, "The jobs, without their attempts", "QueueView", 400),
    }


def _change_jobs() -> dict[str, Any]:
    return {
        "operationId": "changeJobs",
        "summary": f"Cancel, change or retry up to {wire_bulk.MOST_AT_ONCE} jobs",
        "description": "Each as alone, in the order given; one that is refused stops none of the "
        "others. What there was no time for is `unavailable`: send it again. The same changes "
        "again change nothing; the same retry again, while the new job lives, gives that job. A "
        "malformed body changes nothing at all.",
        "requestBody": {"required": True, "content": _content("BulkBody")},
        "responses": _responses(200, "What became of each", "OutcomesView", 400, 403),
    }


def _filters() -> list[dict[str, Any]]:
    text, moment = {"type": "string"}, {"type": "string", "format": "date-time"}
    meanings = {
        "project": ("Only jobs of this project", text),
        "submitter": ("Only jobs of this ARN, or whose ARN has this between its slashes", text),
        "pool": ("Only jobs that run in this pool or, while they do not run, accept it", text),
        "since": ("Only jobs that entered then or later", moment),
        "until": ("Only jobs that entered then or before", moment),
    }
    return [
        {"name": name, "in": "query", "description": meaning, "schema": schema}
        for name, (meaning, schema) in meanings.items()
    ]


def _get_job() -> dict[str, Any]:
    return {
        "operationId": "getJob",
        "summary": "One job with its place, the reason why it waits, and its attempts",
        "responses": _responses(200, "The job", "JobView", 404),
    }


def _cancel_job() -> dict[str, Any]:
    return {
        "operationId": "cancelJob",
        "summary": "Cancel a job, whether it waits or runs",
        "description": "A job that holds slots is `stopping` first. Cancelling a cancelled job "
        "again changes nothing.",
        "responses": _responses(200, "The job as it now stands", "JobView", 403, 404, 409),
    }


def _amend_job() -> dict[str, Any]:
    return {
        "operationId": "amendJob",
        "summary": "Hold a job, release it, give its attempt up, or change its tags",
        "description": "A job that holds slots cannot be held; its settings change, and its pools "
        "count from its next attempt on. Where it gives its attempt up it is stopped, and waits "
        "again. It keeps its entry time. The same change again changes nothing.",
        "requestBody": {"required": True, "content": _content("AmendmentBody")},
        "responses": _responses(200, "The job as it now stands", "JobView", 400, 403, 404, 409),
    }


def _get_request() -> dict[str, Any]:
    return {
        "operationId": "getRequest",
        "summary": "The job's CreateTrainingJob request, with the tags of today",
        "responses": _responses(200, "The request", "RequestView", 404),
    }


def _list_pools() -> dict[str, Any]:
    return {
        "operationId": "listPools",
        "summary": "The pools: their capacity, what is used of it, and what was learned of them",
        "responses": _responses(200, "The pools, in their order", "PoolsView"),
    }


def _set_pool() -> dict[str, Any]:
    return {
        "operationId": "setPool",
        "summary": "Change a pool's settings, or make a pool",
        "description": "What the body does not name stays. Each change is recorded. The same "
        "settings again change nothing. For operators: give the right to nobody else.",
        "requestBody": {"required": True, "content": _content("PoolBody")},
        "responses": _responses(
            200, "The pools as they now stand", "PoolsView", 400, 403, 404, 409
        ),
    }


def _remove_pool() -> dict[str, Any]:
    schema = {"type": "integer", "minimum": 0}
    said = "The configuration's revision that this was decided on: refused if there is another"
    return {
        "operationId": "removePool",
        "summary": "Remove a pool in which nothing runs and for which alone nothing waits",
        "parameters": [{"name": "revision", "in": "query", "description": said, "schema": schema}],
        "responses": _responses(
            200, "The pools as they now stand", "PoolsView", 400, 403, 404, 409
        ),
    }


def _get_limits() -> dict[str, Any]:
    return {
        "operationId": "getLimits",
        "summary": "What callers may ask of the queue, and what the caller has used of it",
        "responses": _responses(200, "The limits", "LimitsView", 403),
    }


def _set_limits() -> dict[str, Any]:
    return {
        "operationId": "setLimits",
        "summary": "Change the limits",
        "description": "What the body does not name stays; 0 stands for no limit. Each change is "
        "recorded. What waits already stays. For operators: give the right to nobody else.",
        "requestBody": {"required": True, "content": _content("LimitsBody")},
        "responses": _responses(200, "The limits as they now stand", "LimitsView", 400, 403, 409),
    }


def _list_changes() -> dict[str, Any]:
    limit = {"type": "integer", "minimum": 1, "maximum": MOST_CHANGES, "default": MOST_CHANGES}
    return {
        "operationId": "listChanges",
        "summary": "The changes of the configuration, the latest first: who, when, before, after",
        "parameters": [
            {"name": "limit", "in": "query", "description": "At most so many", "schema": limit}
        ],
        "responses": _responses(200, "The changes", "ChangesView", 400),
    }


def _about() -> dict[str, Any]:
    return {
        "operationId": "about",
        "summary": "The release that answers, and whom it takes the caller for",
        "responses": _responses(200, "This queue", "AboutView", 403),
    }


def _examine() -> dict[str, Any]:
    return {
        "operationId": "examine",
        "summary": "Everything kept that disagrees with itself or with SageMaker",
        "description": "Reads the whole table and lists the account's training jobs, at most once "
        "a minute. For operators: give the right to nobody else.",
        "responses": _responses(200, "What was found; nothing was changed", "DoctorView", 429),
    }


def _mend() -> dict[str, Any]:
    return {
        "operationId": "mend",
        "summary": "The same, and mend it",
        "description": "What needs a second look (a training job of the queue's that no job "
        "expects) stays for a later call.",
        "responses": _responses(
            200, "What was found, and whether it is mended", "DoctorView", 403, 429
        ),
    }


def _responses(status: int, description: str, model: str, *errors: int) -> dict[str, Any]:
    answers = {status: {"description": description, "content": _content(model)}}
    for error in (*errors, 500, 503):
        answers[error] = {"description": _ERRORS[error], "content": _content("ErrorView")}
    return {str(code): answer for code, answer in answers.items()}


def _content(model: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(model=model)}}}


if __name__ == "__main__":
    json.dump(document(), sys.stdout, indent=2)
    sys.stdout.write("\n")
