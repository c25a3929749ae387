"""The OpenAPI document of `api`, from the pydantic models of the `wire` modules.

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

from slotq_core import names
from slotq_core.api.documents import MOST_CHANGES
from slotq_core.api.routes import MOST_JOBS
from slotq_core.api.signed_requests import DRY_RUN
from slotq_core.model.jobs import JobState
from slotq_core.operations.jobs.group_lookup import MOST_GROUPS
from slotq_core.operations.status import MOST_LOOKED_AT
from slotq_core.usage.amounts import BY
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
    record as wire_record,
)
from slotq_core.wire import (
    submission as wire_submission,
)
from slotq_core.wire.document import contents
from slotq_core.wire.document import views as wire_document
from slotq_core.wire.groups.submission import MOST_MEMBERS, GroupBody
from slotq_core.wire.groups.views import GroupsView, GroupView
from slotq_core.wire.scenario.views import ScenarioView
from slotq_core.wire.training_request import ON_INSTANCES, PROGRAMS, Shape, known_shape
from slotq_core.wire.views import about, errors, jobs, pools, usage

_MODELS: tuple[type[BaseModel], ...] = (
    wire_submission.SubmissionBody,
    wire_amendment.AmendmentBody,
    wire_bulk.BulkBody,
    wire_bulk.OutcomesView,
    GroupBody,
    GroupsView,
    GroupView,
    jobs.RequestView,
    jobs.JobView,
    jobs.QueueView,
    pools.PoolsView,
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
    errors.ErrorView,
)
_REF = "#/components/schemas/{model}"

_ERRORS = {
    400: "Malformed, or it could never run: `message` has a line for each fault, with its "
    "field and what would be right; `field` is the first of them",
    403: "Not signed by an IAM principal, or not allowed",
    404: "No such pool or project, or no such job or group that the caller may see",
    409: (
        "The name is taken or in use; or the request came too late, because the job or the "
        "configuration has changed"
    ),
    429: "A limit is reached: `code` names it; the header Retry-After says when to try again (s)",
    500: "The queue failed; its log has the details under the request's id",
    503: "A service that the queue needs does not answer; it is safe to repeat the request",
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
            "/groups": {"get": _list_groups(), "post": _submit_group()},
            "/groups/{name}": {"parameters": [_GROUP], "get": _get_group()},
            "/pools": {"get": _list_pools()},
            "/pools/{name}": {
                "parameters": [_POOL],
                "patch": _set_pool(),
                "delete": _remove_pool(),
            },
            "/limits": {"get": _get_limits(), "patch": _set_limits()},
            "/configuration": {"get": _get_configuration(), "put": _apply()},
            "/projects": {"get": _list_projects()},
            "/projects/{name}": {
                "parameters": [_PROJECT],
                "patch": _set_project(),
                "delete": _remove_project(),
            },
            "/quota": {"get": _list_quotas()},
            "/changes": {"get": _list_changes()},
            "/usage": {"get": _get_usage()},
            "/attempts": {"get": _list_attempts()},
            "/scenario": {"get": _get_scenario()},
            "/version": {"get": _about()},
            "/me": {"get": _me()},
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

_GROUP = {**_NAME, "description": "The group's name"}

_POOL = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "The pool's name",
    "schema": {"type": "string", "pattern": f"^{definitions.NAME.pattern}$"},
}


_PROJECT = {**_POOL, "description": "The project's name"}


def _switch(name: str, description: str) -> dict[str, Any]:
    schema = {"type": "boolean", "default": False}
    return {"name": name, "in": "query", "description": description, "schema": schema}


_DRY_RUN = _switch(
    DRY_RUN,
    "Only ask: the checks and refusals of a submission, and the job or group as it would be; "
    "nothing is stored, and no submission is counted",
)


def _add_job() -> dict[str, Any]:
    return {
        "operationId": "addJob",
        "summary": "Submit a training job",
        "description": "The body is a CreateTrainingJob request; its tags carry the queue's "
        "settings. The same body again returns the same job, as long as the job "
        "has not ended. The answer has the job's state, but neither place nor reason: "
        "GET /jobs/{name} tells them.",
        "parameters": [_DRY_RUN],
        "requestBody": {"required": True, "content": _content("SubmissionBody")},
        "responses": {
            **_responses(200, "A dry run: the job as it would be", "JobView"),
            **_responses(202, "The queue has stored the job", "JobView", 400, 403, 409, 429),
        },
    }


def _list_jobs() -> dict[str, Any]:
    states = {"type": "array", "items": {"type": "string", "enum": list(JobState)}}
    limit = {"type": "integer", "minimum": 1, "maximum": MOST_JOBS, "default": MOST_JOBS}
    return {
        "operationId": "listJobs",
        "summary": "List jobs in the order of the queue: running, waiting by place, ended",
        "description": "A list that fits in one answer is in the order of the queue, with places, "
        "where at most 1,000 jobs wait. Of a longer one, each answer "
        "has one page and the cursor of the next: first jobs that hold slots, then jobs that wait, "
        "the earliest entry first and without places, then held and ended ones. With filters a "
        f"page examines at most {MOST_LOOKED_AT:,} jobs, so it may have few jobs or none and a "
        "cursor; jobs that each come after many others fill a page sooner. A job that changes its "
        "state in between may be on two pages or on none.",
        "parameters": [
            {
                "name": "state",
                "in": "query",
                "description": "Only jobs in these states (repeated, or comma separated)",
                "schema": states,
            },
            {"name": "limit", "in": "query", "description": "The most to return", "schema": limit},
            *_filters(),
            *_paging(),
        ],
        "responses": _responses(
            200, "The jobs that the caller may see", "QueueView", 400, 403, 404
        ),
    }


def _change_jobs() -> dict[str, Any]:
    return {
        "operationId": "changeJobs",
        "summary": f"Cancel, change or retry up to {wire_bulk.MOST_AT_ONCE} jobs",
        "description": "The queue makes each change as if it came alone, in the given order. A "
        "refused change does not stop the others. A change for which time ran "
        "out is `unavailable`: send it again. Repeating a request changes nothing; repeating a "
        "retry while the new job is active returns that job. A malformed body changes nothing.",
        "requestBody": {"required": True, "content": _content("BulkBody")},
        "responses": _responses(200, "The outcome of each change", "OutcomesView", 400, 403),
    }


def _filters() -> list[dict[str, Any]]:
    text, moment = {"type": "string"}, {"type": "string", "format": "date-time"}
    meanings = {
        "project": ("Only jobs of these projects, comma separated or repeated", text),
        "submitter": (
            "Only jobs of this caller's or person's ARN, or of ARNs with this part between slashes",
            text,
        ),
        "pool": ("Only jobs that run in this pool or, if they do not run, accept it", text),
        "since": ("Only jobs that entered then or later", moment),
        "until": ("Only jobs that entered then or before", moment),
    }
    return _in_query(meanings)


def _paging() -> list[dict[str, Any]]:
    meanings: dict[str, tuple[str, object]] = {
        "next": (
            "The cursor of the page before, with the same states and filters",
            {"type": "string"},
        ),
        "places": (
            f"Return the first of up to {MOST_LOOKED_AT:,} jobs, in true order and with places",
            {"type": "boolean", "default": False},
        ),
    }
    return _in_query(meanings)


def _get_job() -> dict[str, Any]:
    return {
        "operationId": "getJob",
        "summary": "Show one job with its place, the reason why it waits, and its attempts",
        "responses": _responses(200, "The job", "JobView", 403, 404),
    }


def _cancel_job() -> dict[str, Any]:
    return {
        "operationId": "cancelJob",
        "summary": "Cancel a waiting or running job",
        "description": "A job that holds slots is first `stopping`. Cancelling a cancelled job "
        "changes nothing.",
        "responses": _responses(200, "The job as it is now", "JobView", 400, 403, 404, 409),
    }


def _amend_job() -> dict[str, Any]:
    return {
        "operationId": "amendJob",
        "summary": "Hold or release a job, give up its attempt, or change its tags",
        "description": "A job that holds slots cannot be held; other changes are possible, and "
        "new pools apply from its next attempt on. A job that gives up its "
        "attempt is stopped and waits again. It keeps its entry time. The same "
        "change again changes nothing.",
        "requestBody": {"required": True, "content": _content("AmendmentBody")},
        "responses": _responses(200, "The job as it is now", "JobView", 400, 403, 404, 409),
    }


def _get_request() -> dict[str, Any]:
    return {
        "operationId": "getRequest",
        "summary": "Show the job's CreateTrainingJob request, with its current tags and project",
        "responses": _responses(200, "The request", "RequestView", 403, 404),
    }


def _submit_group() -> dict[str, Any]:
    return {
        "operationId": "submitGroup",
        "summary": f"Submit up to {MOST_MEMBERS} jobs under one name, all or none",
        "description": "With `gang` the members start together or not at all; with "
        "`max_parallel` they are independent, and so many hold slots at once. Give one of the two. "
        "Every member is checked as a submission of its own before any is stored, and a gang that "
        "empty pools could not hold is refused. The same body again returns the same group, or "
        "goes on where an unfinished submission stopped.",
        "parameters": [_DRY_RUN],
        "requestBody": {"required": True, "content": _content("GroupBody")},
        "responses": {
            **_responses(200, "A dry run: the group as it would be", "GroupView"),
            **_responses(202, "The queue has stored the group", "GroupView", 400, 403, 409, 429),
        },
    }


def _get_group() -> dict[str, Any]:
    return {
        "operationId": "getGroup",
        "summary": "Show a group with its members, and why a gang waits",
        "parameters": [
            _switch("attempts", "Show the attempts of each member too"),
            *_in_query({"next": ("The `next` of the page before", {"type": "string"})}),
        ],
        "responses": _responses(200, "The group", "GroupView", 400, 403, 404),
    }


def _list_groups() -> dict[str, Any]:
    return {
        "operationId": "listGroups",
        "summary": "List the groups, with how many of their members are in each state",
        "description": f"At most {MOST_GROUPS}: those with the latest members.",
        "parameters": [_switch("ended", "List also the groups whose members have all ended")],
        "responses": _responses(200, "The groups, by name", "GroupsView", 400, 403),
    }


def _list_pools() -> dict[str, Any]:
    return {
        "operationId": "listPools",
        "summary": "Show the pools: capacity, use and health",
        "responses": _responses(200, "The pools, in order", "PoolsView", 403),
    }


def _set_pool() -> dict[str, Any]:
    return {
        "operationId": "setPool",
        "summary": "Change a pool's settings, or create a pool",
        "description": "Settings that the body does not name stay. Each change is recorded. "
        "The same settings again change nothing, but `slots` and `forget_limit` make the queue "
        "forget what SageMaker's refusals have shown of the pool. For operators: give the "
        "right to nobody else.",
        "requestBody": {"required": True, "content": _content("PoolBody")},
        "responses": _responses(200, "The pools as they are now", "PoolsView", 400, 403, 404, 409),
    }


def _remove_pool() -> dict[str, Any]:
    schema = {"type": "integer", "minimum": 0}
    said = "Remove the pool only if the configuration still has this revision"
    return {
        "operationId": "removePool",
        "summary": "Remove a pool; refused while jobs run in it or wait for it alone",
        "parameters": [{"name": "revision", "in": "query", "description": said, "schema": schema}],
        "responses": _responses(200, "The pools as they are now", "PoolsView", 400, 403, 404, 409),
    }


def _get_limits() -> dict[str, Any]:
    return {
        "operationId": "getLimits",
        "summary": "Show the limits on callers, and what the caller uses",
        "responses": _responses(200, "The limits", "LimitsView", 403),
    }


def _set_limits() -> dict[str, Any]:
    return {
        "operationId": "setLimits",
        "summary": "Change the limits",
        "description": "Limits that the body does not name stay; 0 is no limit. Each change is "
        "recorded. Jobs that already wait stay. For operators: give the right "
        "to nobody else.",
        "requestBody": {"required": True, "content": _content("LimitsBody")},
        "responses": _responses(200, "The limits as they are now", "LimitsView", 400, 403, 409),
    }


def _get_configuration() -> dict[str, Any]:
    return {
        "operationId": "getConfiguration",
        "summary": "Show the whole configuration as one document",
        "responses": _responses(200, "The document, and its revision", "ConfigurationView"),
    }


def _apply() -> dict[str, Any]:
    said = "Find everything that would be refused or changed, and write nothing"
    return {
        "operationId": "applyConfiguration",
        "summary": "Replace the whole configuration by a document",
        "description": "What the document leaves out gets its default. All faults are told at "
        "once, each with its path. The change counts whole or not at all, and is recorded. The "
        "same document again changes nothing. For operators: give the right to nobody else.",
        "parameters": [_switch(DRY_RUN, said)],
        "requestBody": {"required": True, "content": _content("ConfigurationBody")},
        "responses": _responses(200, "What has changed", "AppliedView", 400, 403, 409),
    }


def _list_projects() -> dict[str, Any]:
    return {
        "operationId": "listProjects",
        "summary": "Show the projects and what their jobs hold, the oldest first",
        "responses": _responses(200, "The projects", "ProjectsView"),
    }


def _set_project() -> dict[str, Any]:
    keys = contents.SECTIONS["projects"].keys()
    body = {
        "type": "object",
        "description": "Keys of the project's entry in the document; null is a key's default",
        "properties": {
            **{key: {} for key in keys if key != "name"},
            "revision": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]},
        },
        "additionalProperties": False,
    }
    return {
        "operationId": "setProject",
        "summary": "Change keys of a project, or create a project",
        "description": "Keys that the body does not name stay. The same keys again change "
        "nothing. For operators: give the right to nobody else.",
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": _responses(200, "What has changed", "AppliedView", 400, 403, 404, 409),
    }


def _remove_project() -> dict[str, Any]:
    text, count = {"type": "string"}, {"type": "integer", "minimum": 0}
    meanings = {
        "move_to": ("The project that the jobs of this one shall have", text),
        "revision": ("Remove it only if the configuration still has this revision", count),
    }
    return {
        "operationId": "removeProject",
        "summary": "Remove a project; refused while it has jobs, unless they move",
        "description": "If time runs out while jobs move, repeat the request: it goes on.",
        "parameters": _in_query(meanings),
        "responses": _responses(200, "What has changed", "AppliedView", 400, 403, 404, 409),
    }


def _get_usage() -> dict[str, Any]:
    moment = {"type": "string", "format": "date-time"}
    by = {"type": "array", "items": {"type": "string", "enum": [*BY]}}
    parameters = {
        "from": (
            "The first moment that counts, or the first day in UTC (default: this month's first)",
            moment,
        ),
        "to": ("The first moment, or day, that counts no more (default: now)", moment),
        "by": ("What to tell apart (repeated, or comma separated)", by),
        "next": ("The `next` of the page before", {"type": "string"}),
    }
    return {
        "operationId": "getUsage",
        "summary": "Add up what jobs have used in a window, by project, submitter, pool, class",
        "description": "Each attempt counts once, with the part that lies in the window. The rows "
        "of all pages together are the answer. Instance types always have rows of their own. Days "
        "whose single attempts the queue no longer keeps are told whole: there `from` and `to` "
        "must be midnight in UTC.",
        "parameters": _in_query(parameters),
        "responses": _responses(200, "A page", "UsagePageView", 400),
    }


def _in_query(parameters: Mapping[str, tuple[str, object]]) -> list[dict[str, Any]]:
    """Parameters by name, each with its meaning and schema."""
    return [
        {"name": name, "in": "query", "description": meaning, "schema": schema}
        for name, (meaning, schema) in parameters.items()
    ]


def _list_attempts() -> dict[str, Any]:
    moment = {"type": "string", "format": "date-time"}
    parameters = {
        "from": (
            "The beginning of the window: a moment, or a day in UTC (default: a day before `to`)",
            moment,
        ),
        "to": ("The end of the window (default: now)", moment),
        "pool": ("Only attempts of this pool", {"type": "string"}),
        "next": ("The `next` of the page before", {"type": "string"}),
    }
    return {
        "operationId": "listAttempts",
        "summary": "List the attempts that held slots in a window: what a timeline draws",
        "description": "The pages go in the order in which the queue learned of the ends; the last "
        "has the attempts that go on. Single attempts are kept as long as the history: `gone` says "
        "how many of these days are not. Attempts of jobs that the caller may not see have no "
        "names.",
        "parameters": _in_query(parameters),
        "responses": _responses(200, "A page", "AttemptsPageView", 400),
    }


def _get_scenario() -> dict[str, Any]:
    return {
        "operationId": "getScenario",
        "summary": "Show the whole queue as the next pass decides on it",
        "description": "For simulations (`slotq whatif`). What has its default is left out. Jobs "
        "that the caller may not see have stand-in names, as have their users and groups. A page "
        "has at most 1 MB. Ask again with its `next` for the further jobs; 409: the queue has "
        "changed meanwhile, so begin again.",
        "parameters": _in_query({"next": ("The `next` of the page before", {"type": "string"})}),
        "responses": _responses(200, "The queue, or a page of it", "ScenarioView", 400, 403, 409),
    }


def _list_quotas() -> dict[str, Any]:
    whose = {
        "name": "user",
        "in": "query",
        "description": "A person, or `everyone` (default: the caller). Others than the caller for "
        "operators alone",
        "schema": {"type": "string"},
    }
    return {
        "operationId": "listQuotas",
        "summary": "Show what users hold of the slots that they may hold, by pool and class",
        "parameters": [whose],
        "responses": _responses(200, "The quotas", "QuotasView", 400, 403),
    }


def _list_changes() -> dict[str, Any]:
    limit = {"type": "integer", "minimum": 1, "maximum": MOST_CHANGES, "default": MOST_CHANGES}
    return {
        "operationId": "listChanges",
        "summary": (
            "List the changes of the configuration, the latest first: who, when, before, after"
        ),
        "parameters": [
            {"name": "limit", "in": "query", "description": "The most to return", "schema": limit}
        ],
        "responses": _responses(200, "The changes", "ChangesView", 400, 403),
    }


def _about() -> dict[str, Any]:
    return {
        "operationId": "about",
        "summary": "Show the deployed release, and who the caller is",
        "responses": _responses(200, "This queue", "AboutView", 403),
    }


def _me() -> dict[str, Any]:
    return {
        "operationId": "me",
        "summary": "Show the person behind the caller",
        "responses": _responses(200, "The person, and how it was decided", "MeView", 403),
    }


def _examine() -> dict[str, Any]:
    return {
        "operationId": "examine",
        "summary": "List records that disagree with each other or with SageMaker",
        "description": "Reads the whole table and lists the account's training jobs, at most once "
        "a minute. For operators: give the right to nobody else.",
        "responses": _responses(200, "The findings; nothing was changed", "DoctorView", 403, 429),
    }


def _mend() -> dict[str, Any]:
    return {
        "operationId": "mend",
        "summary": "List these records, and mend them",
        "description": "A training job of the queue that no job expects is stopped only at its "
        "second sighting, in a later call.",
        "responses": _responses(
            200, "The findings, and whether each is mended", "DoctorView", 400, 403, 429
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
