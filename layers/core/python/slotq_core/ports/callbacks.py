"""Callbacks: kept from a submission until whoever waits has heard of the job's end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from slotq_core.model.jobs import Job
from slotq_core.model.notices import Callback, CallbackKind, WhenAbandoned
from slotq_core.timestamps import Moment

if TYPE_CHECKING:
    from slotq_core.notices.job_answers import JobAnswer


TOGETHER = 20
"""How many are looked at between two looks at the clock: all of them, or none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptCallback:
    """A callback on its way."""

    job: str
    entered: Moment
    """The job's entry time: a later job of the same name is another one."""
    kind: CallbackKind
    token: str = field(repr=False)
    token_id: str
    """A hash of the token, which may be shown."""
    when_abandoned: WhenAbandoned = WhenAbandoned.CANCEL
    superseded: bool = False
    """Whether a newer token of the job has taken its place."""
    former: tuple[str, ...] = ()
    """The hashes of the tokens that it has replaced, the latest last."""
    due: Moment = 0
    """When it is sent again (ms); 0: now."""
    tries: int = 0
    """How often the job's end was not accepted."""
    trouble: str = ""
    """Why the last call was not accepted; empty: none was refused."""

    @property
    def callback(self) -> Callback:
        return Callback(kind=self.kind, token=self.token, when_abandoned=self.when_abandoned)


class Callbacks(Protocol):
    """The kept callbacks. A submission stores its own (`StoredJobs.submit`). Every read is strongly
    consistent. Methods may raise Unavailable."""

    def attach(self, job: Job, callback: Callback) -> bool:
        """Keep who waits for the end of a stored job, in place of whoever waited before: that one
        is kept as superseded. Returns whether anything has changed. A token that was replaced
        before changes nothing: a repeated older submission does not take the place back. Raises
        NotUnderstood if what is kept cannot be read, and InvalidRequest if the job has had too
        many tokens."""

    def some(self, *, limit: int) -> Sequence[KeptCallback]:
        """Return at most `limit` of them, by turns: where there are more, each call goes on behind
        the one before, and starts again at the end. One that cannot be read is left to an
        operator."""

    def go_on_behind(self, kept: KeptCallback) -> None:
        """Let the next call of `some` go on behind this one, because there was no time for those
        that come after it. Where there are no more than `TOGETHER`, nothing changes."""

    def all(self) -> Iterable[KeptCallback]:
        """Yield every readable one. For people."""

    def put_off(self, kept: KeptCallback, *, due: int, tries: int, trouble: str) -> bool:
        """Note when it is sent again, and why it was not accepted. False, without a change, if
        another token has taken its place."""

    def forget(self, kept: KeptCallback) -> None:
        """Forget it, unless another token has taken its place."""


class Answers(Protocol):
    """Those who wait for jobs' ends."""

    def still_waits(self, callback: Callback) -> bool:
        """Show that the job lives (a heartbeat), and return whether anybody waits for its end.
        Raises NotDelivered, with a reason that has no part of the token. Only for tasks."""

    def send(self, callback: Callback, answer: JobAnswer) -> bool:
        """Tell of the job's end; False if nobody waits any more. The same answer may be sent again.
        Raises NotDelivered, with a reason that has no part of the token."""
