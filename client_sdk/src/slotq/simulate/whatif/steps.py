"""A change that was tried in thought, as steps that put it into force."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from slotq.simulate.whatif.changes import Change

Step = tuple[str, Callable[[], object]]
"""What is said once it is done, and the step itself."""


class Queue(Protocol):
    """What of QueueClient is used here."""

    def apply(self, document: Mapping[str, Any], *, revision: int | None = None) -> object: ...
    def set_priority(self, name: str, priority: int | str) -> object: ...
    def move(self, name: str, pools: tuple[str, ...]) -> object: ...
    def hold(self, name: str) -> object: ...
    def release(self, name: str) -> object: ...
    def cancel(self, name: str) -> object: ...
    def submit(self, request: Mapping[str, Any]) -> object: ...


def steps(
    queue: Queue,
    change: Change,
    document: Mapping[str, Any] | None,
    revision: int,
    *,
    requests: Sequence[Mapping[str, Any]] = (),
) -> Iterator[Step]:
    """The configuration (None: it stays) first, if its revision is still this one, then each job.
    A step raises what the queue refuses with."""
    if document is not None:
        yield "configuration changed", partial(queue.apply, document, revision=revision)
    for name, priority in change.priorities.items():
        yield f"{name}: priority {priority}", partial(queue.set_priority, name, priority)
    for name, pools in change.moves.items():
        yield f"{name}: moved to {', '.join(pools)}", partial(queue.move, name, pools)
    for name in change.holds:
        yield f"{name}: held", partial(queue.hold, name)
    for name in change.releases:
        yield f"{name}: released", partial(queue.release, name)
    for name in change.cancels:
        yield f"{name}: cancelled", partial(queue.cancel, name)
    for request in requests:
        yield f"{request['TrainingJobName']}: submitted", partial(queue.submit, request)
