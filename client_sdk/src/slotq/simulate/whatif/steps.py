"""A change that was tried in thought, as steps that put it into force."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from slotq.simulate.whatif.changes import Change

if TYPE_CHECKING:
    from slotq.client import QueueClient

Step = tuple[str, Callable[[], object]]
"""What is said once it is done, and the step itself."""


def steps(
    queue: QueueClient,
    change: Change,
    document: Mapping[str, Any] | None,
    revision: int,
    *,
    requests: Sequence[Mapping[str, Any]] = (),
) -> Iterator[Step]:
    """The configuration (None: it stays) first, if its revision is still this one, then each job.
    A step raises what the queue refuses with."""
    if document is not None:
        yield (
            "configuration changed",
            partial(queue.configuration.apply, document, revision=revision),
        )
    for name, priority in change.priorities.items():
        yield f"{name}: priority {priority}", partial(queue.jobs.set_priority, name, priority)
    for name, pools in change.moves.items():
        yield f"{name}: moved to {', '.join(pools)}", partial(queue.jobs.move, name, pools)
    for name in change.holds:
        yield f"{name}: held", partial(queue.jobs.hold, name)
    for name in change.releases:
        yield f"{name}: released", partial(queue.jobs.release, name)
    for name in change.cancels:
        yield f"{name}: cancelled", partial(queue.jobs.cancel, name)
    for request in requests:
        yield f"{request['TrainingJobName']}: submitted", partial(queue.submit, request)
