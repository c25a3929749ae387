"""The routes of jobs and of groups."""

from __future__ import annotations

from slotq_core.api.table.route import (
    DRY_RUN,
    MOMENT,
    SWITCH,
    TEXT,
    Parameter,
    Returned,
    Route,
)
from slotq_core.model.callers import Action
from slotq_core.model.jobs import JobState
from slotq_core.operations.status import MOST_LISTED

_DRY_RUN = Parameter(
    name=DRY_RUN,
    meaning="Only ask: the checks and refusals of a submission, and the job or group as it would "
    "be; nothing is stored, and no submission is counted",
    schema=SWITCH,
)

FILTERS = (
    Parameter(
        name="project",
        meaning="Only jobs of these projects, comma separated or repeated",
        schema=TEXT,
    ),
    Parameter(
        name="submitter",
        meaning="Only jobs of this caller's or person's ARN, or of ARNs with this part between "
        "slashes",
        schema=TEXT,
    ),
    Parameter(
        name="pool",
        meaning="Only jobs that run in this pool or, if they do not run, accept it",
        schema=TEXT,
    ),
    Parameter(name="since", meaning="Only jobs that entered then or later", schema=MOMENT),
    Parameter(name="until", meaning="Only jobs that entered then or before", schema=MOMENT),
)
"""The filters of GET /jobs (`operations.status.JobFilter`) besides the states."""

JOB_ROUTES = (
    Route(
        path="/add-job",
        method="POST",
        action=Action.SUBMIT,
        handler=lambda of: of.jobs.add,
        operation="addJob",
        summary="Submit a training job",
        description="The body is a CreateTrainingJob request; its tags carry the queue's settings. "
        "The same body again returns the same job, as long as the job has not ended. The answer "
        "has the job's state, but neither place nor reason: GET /jobs/{{name}} shows them. With "
        "`slotq:callback` the queue tells a state machine or a pipeline of the job's end; such a "
        "body is answered after the end, too.",
        query=(_DRY_RUN,),
        body="SubmissionBody",
        returns=(
            Returned(meaning="A dry run: the job as it would be", model="JobView"),
            Returned(status=202, meaning="The queue has stored the job", model="JobView"),
        ),
        errors=(400, 403, 409, 429),
    ),
    Route(
        path="/jobs",
        method="POST",
        action=Action.SUBMIT,
        handler=lambda of: of.jobs.add_many,
        operation="addJobs",
        summary="Submit up to {MOST_JOBS} independent training jobs",
        description="The queue submits each job as if it came alone, in the given order: a refused "
        "job does not stop the others, and a job may come after earlier ones of the same request. "
        "Each outcome has the job, or the error and the status that the job alone would have got; "
        "`field` begins with `jobs.` and the job's place. A job for which time ran out is "
        "`unavailable`: send it again. The same body again returns the same jobs, and goes on with "
        "the others. A body that cannot be read submits nothing.",
        body="BatchBody",
        returns=(Returned(meaning="The outcome of each job", model="OutcomesView"),),
        errors=(400, 403),
    ),
    Route(
        path="/jobs",
        method="GET",
        action=Action.SEE,
        handler=lambda of: of.jobs.list_jobs,
        operation="listJobs",
        tagged=True,
        summary="List jobs in the order of the queue: running, waiting by place, ended",
        description="A list that fits in one answer is in the order of the queue, with places, "
        "where at most 1,000 jobs wait. Of a longer one, each answer has one page and the cursor "
        "of the next: first jobs that hold slots, then jobs that wait, the earliest entry first "
        "and without places, then held and ended ones. With filters a page examines at most "
        "{MOST_LOOKED_AT:,} jobs, so it may have few jobs or none and a cursor; jobs that each "
        "come after many others fill a page sooner. A job that changes its state in between may "
        "be on two pages or on none.",
        query=(
            Parameter(
                name="state",
                meaning="Only jobs in these states (repeated, or comma separated)",
                schema={"type": "array", "items": {"type": "string", "enum": [*JobState]}},
            ),
            *FILTERS,
            Parameter(
                name="limit",
                meaning="The most to return",
                schema={
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MOST_LISTED,
                    "default": MOST_LISTED,
                },
            ),
            Parameter(
                name="next",
                meaning="The cursor of the page before, with the same states and filters",
                schema=TEXT,
            ),
            Parameter(
                name="places",
                meaning="Return the first of up to {MOST_LOOKED_AT:,} jobs, in true order and with "
                "places",
                schema=SWITCH,
            ),
        ),
        returns=(Returned(meaning="The jobs that the caller may see", model="QueueView"),),
        errors=(400, 403, 404),
    ),
    Route(
        path="/jobs",
        method="PATCH",
        action=Action.CHANGE,
        handler=lambda of: of.jobs.change_many,
        operation="changeJobs",
        summary="Cancel, change or retry up to {MOST_AT_ONCE} jobs",
        description="The queue makes each change as if it came alone, in the given order. A "
        "refused change does not stop the others. A change for which time ran out is "
        "`unavailable`: send it again. Repeating a request changes nothing; repeating a retry "
        "while the new job is active returns that job. A malformed body changes nothing.",
        body="BulkBody",
        returns=(Returned(meaning="The outcome of each change", model="OutcomesView"),),
        errors=(400, 403),
    ),
    Route(
        path="/jobs/<name>",
        method="GET",
        action=Action.SEE,
        handler=lambda of: of.jobs.get,
        operation="getJob",
        tagged=True,
        summary="Show one job with its place, the reason why it waits, and its attempts",
        returns=(Returned(meaning="The job", model="JobView"),),
        errors=(403, 404),
    ),
    Route(
        path="/jobs/<name>",
        method="DELETE",
        action=Action.CHANGE,
        handler=lambda of: of.jobs.cancel,
        operation="cancelJob",
        summary="Cancel a waiting or running job",
        description="A job that holds slots is first `stopping`. Cancelling a cancelled job "
        "changes nothing.",
        returns=(Returned(meaning="The job as it is now", model="JobView"),),
        errors=(400, 403, 404, 409),
    ),
    Route(
        path="/jobs/<name>",
        method="PATCH",
        action=Action.CHANGE,
        handler=lambda of: of.jobs.amend,
        operation="amendJob",
        summary="Hold or release a job, give up its attempt, or change its tags",
        description="A job that holds slots cannot be held; other changes are possible, and new "
        "pools apply from its next attempt on. A job that gives up its attempt is stopped and "
        "waits again. It keeps its entry time. The same change again changes nothing.",
        body="AmendmentBody",
        returns=(Returned(meaning="The job as it is now", model="JobView"),),
        errors=(400, 403, 404, 409),
    ),
    Route(
        path="/jobs/<name>/request",
        method="GET",
        action=Action.SEE,
        handler=lambda of: of.jobs.get_request,
        operation="getRequest",
        summary="Show the job's CreateTrainingJob request, with its current tags and project",
        returns=(Returned(meaning="The request", model="RequestView"),),
        errors=(403, 404),
    ),
    Route(
        path="/groups",
        method="GET",
        action=Action.SEE,
        handler=lambda of: of.groups.list_groups,
        operation="listGroups",
        tagged=True,
        summary="List the groups, with how many of their members are in each state",
        description="At most {MOST_GROUPS}: those with the latest members.",
        query=(
            Parameter(
                name="ended",
                meaning="List also the groups whose members have all ended",
                schema=SWITCH,
            ),
        ),
        returns=(Returned(meaning="The groups, by name", model="GroupsView"),),
        errors=(400, 403),
    ),
    Route(
        path="/groups",
        method="POST",
        action=Action.SUBMIT,
        handler=lambda of: of.groups.submit,
        operation="submitGroup",
        summary="Submit up to {MOST_MEMBERS} jobs under one name, all or none",
        description="With `gang` the members start together or not at all; with `max_parallel` "
        "they are independent, and so many hold slots at once. Give one of the two. Every member "
        "is checked as a submission of its own before any is stored, and a gang that empty pools "
        "could not hold is refused. The same body again returns the same group, or goes on where "
        "an unfinished submission stopped.",
        query=(_DRY_RUN,),
        body="GroupBody",
        returns=(
            Returned(meaning="A dry run: the group as it would be", model="GroupView"),
            Returned(status=202, meaning="The queue has stored the group", model="GroupView"),
        ),
        errors=(400, 403, 409, 429),
    ),
    Route(
        path="/groups/<name>",
        method="GET",
        action=Action.SEE,
        handler=lambda of: of.groups.get,
        operation="getGroup",
        tagged=True,
        summary="Show a group with its members, and why a gang waits",
        query=(
            Parameter(
                name="attempts", meaning="Show the attempts of each member too", schema=SWITCH
            ),
            Parameter(name="next", meaning="The `next` of the page before", schema=TEXT),
        ),
        returns=(Returned(meaning="The group", model="GroupView"),),
        errors=(400, 403, 404),
    ),
)
