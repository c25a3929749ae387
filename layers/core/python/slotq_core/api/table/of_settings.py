"""The routes of pools, limits, the configuration, projects and quotas."""

from __future__ import annotations

from slotq_core.api.table.route import COUNT, DRY_RUN, SWITCH, TEXT, Parameter, Returned, Route
from slotq_core.model.callers import Action

MOST_CHANGES = 100
"""The largest and the default `limit` of GET /changes."""

SETTING_ROUTES = (
    Route(
        path="/pools",
        method="GET",
        action=Action.LOOK,
        handler=lambda of: of.pools_and_limits.list_pools,
        operation="listPools",
        tagged=True,
        summary="Show the pools: capacity, use and health",
        returns=(Returned(meaning="The pools, in order", model="PoolsView"),),
        errors=(403,),
    ),
    Route(
        path="/pools/<name>",
        method="PATCH",
        action=Action.OPERATE,
        handler=lambda of: of.pools_and_limits.set_pool,
        operation="setPool",
        summary="Change a pool's settings, or create a pool",
        description="Settings that the body does not name stay. Each change is recorded. The same "
        "settings again change nothing, but `slots` and `forget_limit` make the queue forget what "
        "SageMaker's refusals have shown of the pool. For operators: give the right to nobody "
        "else.",
        body="PoolBody",
        returns=(Returned(meaning="The pools as they are now", model="PoolsView"),),
        errors=(400, 403, 404, 409),
    ),
    Route(
        path="/pools/<name>",
        method="DELETE",
        action=Action.OPERATE,
        handler=lambda of: of.pools_and_limits.remove_pool,
        operation="removePool",
        summary="Remove a pool; refused while jobs run in it or wait for it alone",
        query=(
            Parameter(
                name="revision",
                meaning="Remove the pool only if the configuration still has this revision",
                schema=COUNT,
            ),
        ),
        returns=(Returned(meaning="The pools as they are now", model="PoolsView"),),
        errors=(400, 403, 404, 409),
    ),
    Route(
        path="/limits",
        method="GET",
        action=Action.LOOK,
        handler=lambda of: of.pools_and_limits.get_limits,
        operation="getLimits",
        summary="Show the limits on callers, and what the caller uses",
        returns=(Returned(meaning="The limits", model="LimitsView"),),
        errors=(403,),
    ),
    Route(
        path="/limits",
        method="PATCH",
        action=Action.OPERATE,
        handler=lambda of: of.pools_and_limits.set_limits,
        operation="setLimits",
        summary="Change the limits",
        description="Limits that the body does not name stay; 0 is no limit. Each change is "
        "recorded. Jobs that already wait stay. For operators: give the right to nobody else.",
        body="LimitsBody",
        returns=(Returned(meaning="The limits as they are now", model="LimitsView"),),
        errors=(400, 403, 409),
    ),
    Route(
        path="/configuration",
        method="GET",
        action=Action.LOOK,
        handler=lambda of: of.documents.show,
        operation="getConfiguration",
        summary="Show the whole configuration as one document",
        returns=(Returned(meaning="The document, and its revision", model="ConfigurationView"),),
    ),
    Route(
        path="/configuration",
        method="PUT",
        action=Action.OPERATE,
        handler=lambda of: of.documents.apply,
        operation="applyConfiguration",
        summary="Replace the whole configuration by a document",
        description="What the document leaves out gets its default. All faults are listed at once, "
        "each with its path. The change counts whole or not at all, and is recorded. The same "
        "document again changes nothing. For operators: give the right to nobody else.",
        query=(
            Parameter(
                name=DRY_RUN,
                meaning="Find everything that would be refused or changed, and write nothing",
                schema=SWITCH,
            ),
        ),
        body="ConfigurationBody",
        returns=(Returned(meaning="What has changed", model="AppliedView"),),
        errors=(400, 403, 409),
    ),
    Route(
        path="/projects",
        method="GET",
        action=Action.LOOK,
        handler=lambda of: of.documents.list_projects,
        operation="listProjects",
        tagged=True,
        summary="Show the projects and what their jobs hold, the oldest first",
        returns=(Returned(meaning="The projects", model="ProjectsView"),),
    ),
    Route(
        path="/projects/<name>",
        method="PATCH",
        action=Action.OPERATE,
        handler=lambda of: of.documents.set_project,
        operation="setProject",
        summary="Change keys of a project, or create a project",
        description="Keys that the body does not name stay. The same keys again change nothing. "
        "For operators: give the right to nobody else.",
        body="ProjectBody",
        returns=(Returned(meaning="What has changed", model="AppliedView"),),
        errors=(400, 403, 404, 409),
    ),
    Route(
        path="/projects/<name>",
        method="DELETE",
        action=Action.OPERATE,
        handler=lambda of: of.documents.remove_project,
        operation="removeProject",
        summary="Remove a project; refused while it has jobs, unless they move",
        description="If time runs out while jobs move, repeat the request: it goes on.",
        query=(
            Parameter(
                name="move_to",
                meaning="The project that the jobs of this one shall have",
                schema=TEXT,
            ),
            Parameter(
                name="revision",
                meaning="Remove it only if the configuration still has this revision",
                schema=COUNT,
            ),
        ),
        returns=(Returned(meaning="What has changed", model="AppliedView"),),
        errors=(400, 403, 404, 409),
    ),
    Route(
        path="/quota",
        method="GET",
        action=Action.LOOK,
        handler=lambda of: of.documents.list_quotas,
        operation="listQuotas",
        tagged=True,
        summary="Show what users hold of the slots that they may hold, by pool and class",
        query=(
            Parameter(
                name="user",
                meaning="A person, or `everyone` (default: the caller). Others than the caller for "
                "operators alone",
                schema=TEXT,
            ),
        ),
        returns=(Returned(meaning="The quotas", model="QuotasView"),),
        errors=(400, 403),
    ),
    Route(
        path="/changes",
        method="GET",
        action=Action.LOOK,
        handler=lambda of: of.documents.list_changes,
        operation="listChanges",
        summary="List the changes of the configuration, the latest first: who, when, before, after",
        query=(
            Parameter(
                name="limit",
                meaning="The most to return",
                schema={
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MOST_CHANGES,
                    "default": MOST_CHANGES,
                },
            ),
        ),
        returns=(Returned(meaning="The changes", model="ChangesView"),),
        errors=(400, 403),
    ),
)
