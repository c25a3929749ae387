"""Who gives slots back. The scenarios of `projects` say the rest."""

from __future__ import annotations

from slotq_core.model.demand import Demand
from slotq_core.model.projects import Project
from slotq_core.model.snapshot import Snapshot
from slotq_core.policy.cycle import plan
from slotq_core.policy.plan import Evict
from tests.unit.policy.test_reasons import NOW, pool, runs, waits


def test_jobs_from_before_there_were_projects_give_to_a_project():
    """Their project's name is empty. Scenarios have no such jobs."""
    snapshot = Snapshot(
        pools=(pool(slots=2, consolidate=False),),
        projects=(Project(name=""), Project(name="a", quota={"": Demand(slots=1)})),
        active=(runs("old1"), runs("old2")),
        waiting=(waits("j", project="a"),),
    )
    (found,) = plan(snapshot, NOW).decisions
    assert isinstance(found, Evict)
    assert (found.beneficiary.name, len(found.victims)) == ("j", 1)
