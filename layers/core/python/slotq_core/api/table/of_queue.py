"""The routes of what was used, of the whole queue, and of the queue itself."""

from __future__ import annotations

from slotq_core.api.table.route import MOMENT, TEXT, Parameter, Returned, Route
from slotq_core.model.callers import Action
from slotq_core.usage.amounts import BY

_NEXT = Parameter(name="next", meaning="The `next` of the page before", schema=TEXT)

QUEUE_ROUTES = (
    Route(
        path="/usage",
        method="GET",
        action=Action.LOOK,
        handler=lambda of: of.usage.get,
        operation="getUsage",
        summary="Add up what jobs have used in a window, by project, submitter, pool, class, kind",
        description="Each attempt counts once, with the part that lies in the window. The rows of "
        "all pages together are the answer. Instance types and kinds of capacity have rows of "
        "their own. Days whose single attempts the queue no longer keeps count as a whole: there "
        "`from` and `to` must be midnight in UTC.",
        query=(
            Parameter(
                name="from",
                meaning="The first moment that counts, or the first day in UTC (default: this "
                "month's first)",
                schema=MOMENT,
            ),
            Parameter(
                name="to",
                meaning="The first moment, or day, that counts no more (default: now)",
                schema=MOMENT,
            ),
            Parameter(
                name="by",
                meaning="What to group by (repeated, or comma separated)",
                schema={"type": "array", "items": {"type": "string", "enum": [*BY]}},
            ),
            _NEXT,
        ),
        returns=(Returned(meaning="A page", model="UsagePageView"),),
        errors=(400,),
    ),
    Route(
        path="/attempts",
        method="GET",
        action=Action.LOOK,
        handler=lambda of: of.usage.list_attempts,
        operation="listAttempts",
        summary="List the attempts that held slots in a window: what a timeline draws",
        description="The pages go in the order in which the queue learned of the ends; the last "
        "has the attempts that go on. Single attempts are kept as long as the history: `gone` says "
        "how many of these days are not. Attempts of jobs that the caller may not see have no "
        "names.",
        query=(
            Parameter(
                name="from",
                meaning="The beginning of the window: a moment, or a day in UTC (default: a day "
                "before `to`)",
                schema=MOMENT,
            ),
            Parameter(name="to", meaning="The end of the window (default: now)", schema=MOMENT),
            Parameter(name="pool", meaning="Only attempts of this pool", schema=TEXT),
            _NEXT,
        ),
        returns=(Returned(meaning="A page", model="AttemptsPageView"),),
        errors=(400,),
    ),
    Route(
        path="/scenario",
        method="GET",
        action=Action.LOOK,
        handler=lambda of: of.queue.scenario,
        operation="getScenario",
        tagged=True,
        summary="Show the whole queue as the next pass decides on it",
        description="For simulations (`slotq whatif`). What has its default is left out. Jobs that "
        "the caller may not see have stand-in names, as have their users and groups. A page has at "
        "most 1 MB. Ask again with its `next` for the further jobs; 409: the queue has changed "
        "meanwhile, so begin again.",
        query=(_NEXT,),
        returns=(Returned(meaning="The queue, or a page of it", model="ScenarioView"),),
        errors=(400, 403, 409),
    ),
    Route(
        path="/nodes",
        method="GET",
        action=Action.LOOK,
        handler=lambda of: of.queue.nodes,
        operation="listNodes",
        tagged=True,
        summary="Show the nodes: the instances that pools keep, and the jobs on their GPUs",
        description="Jobs that the caller may not see have no names.",
        returns=(Returned(meaning="The nodes, by pool", model="NodesView"),),
        errors=(403,),
    ),
    Route(
        path="/version",
        method="GET",
        action=Action.LOOK,
        handler=lambda of: of.queue.about,
        operation="about",
        summary="Show the deployed release, and who the caller is",
        returns=(Returned(meaning="This queue", model="AboutView"),),
        errors=(403,),
    ),
    Route(
        path="/me",
        method="GET",
        action=Action.LOOK,
        handler=lambda of: of.queue.me,
        operation="me",
        summary="Show the person behind the caller",
        returns=(Returned(meaning="The person, and how it was decided", model="MeView"),),
        errors=(403,),
    ),
    Route(
        path="/nodes/<pool>/<name>/report",
        method="POST",
        action=Action.LOOK,
        handler=lambda of: of.queue.look_at_node,
        operation="lookAtNode",
        summary="Read the report of a node now, and decide what follows from it",
        description="For the agents of nodes, which call it after a change. The report lies in the "
        "bucket of the stack, and nothing of this request is read.",
        returns=(Returned(meaning="What the queue has read", model="NodeReportView"),),
        errors=(400, 404),
    ),
    Route(
        path="/doctor",
        method="GET",
        action=Action.OPERATE,
        handler=lambda of: of.queue.examine,
        operation="examine",
        summary="List records that disagree with each other or with SageMaker",
        description="Reads the whole table and lists the account's training jobs, at most once a "
        "minute. For operators: give the right to nobody else.",
        returns=(Returned(meaning="The findings; nothing was changed", model="DoctorView"),),
        errors=(403, 429),
    ),
    Route(
        path="/doctor",
        method="POST",
        action=Action.OPERATE,
        handler=lambda of: of.queue.mend,
        operation="mend",
        summary="List these records, and mend them",
        description="A training job of the queue that no job expects is stopped only at its second "
        "sighting, in a later call.",
        returns=(Returned(meaning="The findings, and whether each is mended", model="DoctorView"),),
        errors=(400, 403, 429),
    ),
)
