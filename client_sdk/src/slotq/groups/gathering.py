"""`slotq.gang`: the training jobs of a block, submitted together when it ends.

    with slotq.gang("ring", min_members=2):
        first.fit(wait=False)
        second.fit(wait=False)

It works for both SDKs, and for boto3 after `slotq.install`. Inside the block a job is only
gathered: DescribeTrainingJob shows it as pending, and the queue does not have it yet. If the block
raises, nothing is submitted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from slotq.errors import InvalidRequest

if TYPE_CHECKING:
    from slotq_core.wire.groups.views import GroupView
    from slotq_core.wire.views.jobs import JobView


class Submitter(Protocol):
    """A submitter of training jobs, which also submits a gang."""

    def submit_gang(self, gang: Gang) -> GroupView: ...

    def caller(self) -> str:
        """The submitter's ARN."""


class Gang:
    """The jobs gathered so far, and the rules. The rules may be changed until the block ends."""

    def __init__(
        self,
        name: str,
        *,
        min_members: int | None,
        mandatory: Iterable[str],
        same_pool: bool,
        elastic: bool = False,
    ) -> None:
        self.name, self.min_members, self.same_pool = name, min_members, same_pool
        self.elastic = elastic
        self.mandatory = [mandatory] if isinstance(mandatory, str) else [*mandatory]
        """Names of jobs. The SDKs choose names with each submission: add them inside the block."""
        self.requests: dict[str, Mapping[str, Any]] = {}
        """The CreateTrainingJob requests, by job name."""
        self.group: GroupView | None = None
        """The group, once it is submitted."""
        self.submitter: Submitter | None = None

    def __repr__(self) -> str:
        state = self.group.state if self.group else "not submitted yet"
        return f"<gang {self.name}: {len(self.requests)} jobs, {state}>"

    def gather(self, request: Mapping[str, Any], submitter: Submitter) -> JobView:
        """Gather a job; returns its view before submission. Raises InvalidRequest if another
        session has gathered the first job."""
        if self.submitter not in {None, submitter}:
            raise InvalidRequest(
                f"the jobs of gang {self.name} must all go through one session of one queue"
            )
        name = str(request.get("TrainingJobName") or "")
        if name in self.requests:
            raise InvalidRequest(
                f"gang {self.name} has a job named '{name}' already", field="TrainingJobName"
            )
        self.submitter = submitter
        self.requests[name] = request
        return self.known(name)

    def names(self) -> Collection[str]:
        return self.requests.keys()

    def known(self, name: str) -> JobView:
        """The view of a gathered job: a waiting job."""
        return pending(name, self.submitter.caller() if self.submitter else "", group=self.name)


def pending(name: str, submitter: str, *, group: str = "") -> JobView:
    """The view of a job that the queue does not have yet."""
    now = datetime.now(UTC).isoformat()
    from slotq_core.wire.views.jobs import JobView

    return JobView(
        name=name,
        state="pending",
        priority=0,
        entry_time=now,
        changed_at=now,
        demand={},
        pools=[],
        preemptible=True,
        min_runtime=0,
        retries=0,
        submitter=submitter,
        group=group,
        attempts_begun=0,
        evictions=0,
    )


class Block(Protocol):
    """The jobs that a block submits at its end."""

    def names(self) -> Collection[str]: ...

    def known(self, name: str) -> JobView: ...


BLOCKS: ContextVar[tuple[Block, ...]] = ContextVar("slotq_blocks", default=())
"""The blocks that run, the innermost first."""

_now: ContextVar[Gang | None] = ContextVar("slotq_gang", default=None)


@contextmanager
def gang(
    name: str,
    *,
    min_members: int | None = None,
    mandatory: Iterable[str] = (),
    same_pool: bool = False,
    elastic: bool = False,
) -> Iterator[Gang]:
    """Submit the training jobs of this block as one gang when it ends: all start together, or
    `min_members` of them with all `mandatory` ones, in one pool with `same_pool`. With
    `elastic`, members beyond `min_members` are evicted one by one and join again.

    Use `fit(wait=False)` inside the block. Raises InvalidRequest where the block has submitted
    nothing, and what `queue.groups.submit_gang` raises.
    """
    if _now.get() is not None:
        raise InvalidRequest("a gang is gathered already: end its block before the next one")
    made = Gang(
        name,
        min_members=min_members,
        mandatory=mandatory,
        same_pool=same_pool,
        elastic=elastic,
    )
    token, block = _now.set(made), BLOCKS.set((made, *BLOCKS.get()))
    try:
        yield made
    finally:
        BLOCKS.reset(block)
        _now.reset(token)
    if made.submitter is None:
        raise InvalidRequest(f"gang {name} has no jobs: nothing was submitted inside its block")
    made.group = made.submitter.submit_gang(made)


def gathering() -> Gang | None:
    """The gang of the block that runs, if there is one."""
    return _now.get()


def gathered(name: object) -> JobView | None:
    """The job of that name, if a block has it that has not submitted it yet."""
    found = (block for block in BLOCKS.get() if name in block.names())
    return next((block.known(str(name)) for block in found), None)


def check_submitted(name: str) -> None:
    """Raises InvalidRequest if the job is only gathered: it cannot be waited for."""
    if gathered(name) is not None:
        raise InvalidRequest(
            f"{name} is submitted when the block of its gang or batch ends: do not wait for it "
            "inside (`fit(wait=False)`), but after it"
        )
