"""The users' verbs on jobs: their changes, jobs, arguments and texts.

One table. From it follow the commands (`slotq.cli.verbs.changes`), what they print, the page's
buttons (`client_sdk/ui/src/verbs.ts`, by `make tables`) and the tables of the documentation. What a
verb does to a job is in `operations.amend`, and the key of its change in `wire.job_changes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from slotq_core.model.callers import Action
from slotq_core.model.jobs import (
    ACTIVE_STATES,
    QUEUED_STATES,
    TERMINAL_STATES,
    WAITING_OR_BACKING_OFF,
    JobState,
)
from slotq_core.names import POOLS_TAG, PRIORITY_TAG, PROJECT_TAG

LIVING_STATES = frozenset(JobState) - TERMINAL_STATES
"""States of a job that has not ended."""


class Takes(StrEnum):
    """The argument of a verb besides the jobs."""

    NOTHING = ""
    PRIORITY = "priority"
    """A number, or a class."""
    POOLS = "pools"
    """Names, the best first."""
    PROJECT = "project"
    TEXT = "text"


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """Jobs for which the page has a button, and what it says will happen."""

    states: frozenset[JobState]
    says: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Verb:
    name: str
    """The command."""
    help: str
    """The command's help; its first sentence is the summary."""
    means: str
    """The sentences of docs/cli.md, in Markdown."""
    key: str
    """The key of the change (`wire.job_changes.ChangeBody`)."""
    value: bool | None = None
    """The key's value; None: what the verb takes."""
    tag: str = ""
    """With the key `tags`: the tag that has the value."""
    of_attempt: bool = False
    """Whether the value is the number of the job's attempt, so that repeating the change is
    harmless."""
    states: frozenset[JobState]
    """The jobs that the verb is for: those that options of the command select."""
    action: Action = Action.CHANGE
    """The action that the caller needs the right to (`model.callers.NEEDED`)."""
    takes: Takes = Takes.NOTHING
    metavar: str = ""
    """The argument in the command's usage."""
    phrase: str = ""
    """The words before `… 20 jobs?`; empty: the name."""
    label: str = ""
    """The page's words for what it takes."""
    offers: tuple[Offer, ...] = ()
    """On the page of one job; empty: it has no button."""
    of_a_group: str = ""
    """The announcement of the button on a group's page; empty: no button."""
    simulated: str = ""
    """The key of the change in a what-if; empty: none shows it."""

    @property
    def summary(self) -> str:
        return self.help.split("\n\n")[0].split(". ")[0].rstrip(".")


VERBS: tuple[Verb, ...] = (
    Verb(
        name="cancel",
        help="Cancel jobs. A running job is stopped first.",
        means="Cancels a job. A running job is stopped first. Cancelling a cancelled job is no "
        "error.",
        key="cancel",
        value=True,
        states=LIVING_STATES,
        offers=(
            Offer(states=QUEUED_STATES, says="The job ends and does not run."),
            Offer(
                states=ACTIVE_STATES,
                says="Its training job is stopped, and the job does not run again. What it has not "
                "saved is lost.",
            ),
        ),
        of_a_group="Those that wait end and do not run. Those that run are stopped; what they have "
        "not saved is lost.",
        simulated="cancels",
    ),
    Verb(
        name="hold",
        help="Keep waiting jobs from starting until they are released. They keep their entry time.",
        means="Keeps a waiting job from starting until you release it. It keeps its entry time. A "
        "job that holds slots cannot be held.",
        key="held",
        value=True,
        states=frozenset(WAITING_OR_BACKING_OFF),
        offers=(
            Offer(
                states=frozenset(WAITING_OR_BACKING_OFF),
                says="The job does not start until it is released. It keeps its entry time.",
            ),
        ),
        of_a_group="Those that wait do not start until they are released. They keep their entry "
        "time.",
        simulated="holds",
    ),
    Verb(
        name="release",
        help="Let held jobs wait again, each at its old entry time.",
        means="Lets the job wait again, at its old place.",
        key="held",
        value=False,
        states=frozenset({JobState.HELD}),
        offers=(
            Offer(
                states=frozenset({JobState.HELD}),
                says="The job may start again. Its place is that of its entry time.",
            ),
        ),
        of_a_group="They may start again, at their entry time.",
        simulated="releases",
    ),
    Verb(
        name="priority",
        help="Change the priority of jobs (high first), a number or a class.\n\n"
        "This may evict other jobs, or these.",
        means="Sets the priority, high first: a number, or a "
        "[class](configuration.md#classes-and-quotas-of-users), in any case. The priority of a "
        "running job decides for whom it is evicted.",
        key="tags",
        tag=PRIORITY_TAG,
        states=LIVING_STATES,
        takes=Takes.PRIORITY,
        metavar="NUMBER|CLASS",
        phrase="change the priority of",
        label="New priority",
        offers=(
            Offer(
                states=QUEUED_STATES,
                says="The job moves in its lines at once. With a higher priority it may evict "
                "others.",
            ),
            Offer(
                states=ACTIVE_STATES,
                says="With a lower priority the job may be evicted for others.",
            ),
        ),
        of_a_group="Those that wait move in their lines at once; those that run may be evicted "
        "with a lower one.",
        simulated="priorities",
    ),
    Verb(
        name="move",
        help="Let jobs run only in POOLS (comma separated, best first).\n\n"
        "A running attempt stays where it is; `slotq requeue` ends it.",
        means="Sets the pools that the job accepts from its next start on, best first.",
        key="tags",
        tag=POOLS_TAG,
        states=LIVING_STATES,
        takes=Takes.POOLS,
        metavar="POOLS",
        label="Pools, separated by commas",
        offers=(
            Offer(
                states=QUEUED_STATES,
                says="The job accepts these pools from now on, the most welcome first.",
            ),
        ),
        simulated="moves",
    ),
    Verb(
        name="transfer",
        help="Give jobs that hold no slots to PROJECT.\n\n"
        "They keep their entry time, and get the project's pools if they name none. A running job "
        "stays in its project; `slotq requeue` ends its attempt.",
        means="Gives a job that holds no slots to another project. It keeps its entry time. You "
        "must be allowed to change the job and to submit to that project, and the project checks "
        "it as a submission. A running job stays where it is: `slotq requeue` it first.",
        key="tags",
        tag=PROJECT_TAG,
        states=QUEUED_STATES,
        takes=Takes.PROJECT,
        metavar="PROJECT",
    ),
    Verb(
        name="requeue",
        help="Stop the running attempt of jobs; the jobs wait again.\n\n"
        "Each keeps its entry time and its checkpoints, so it may start again at once if no job is "
        "ahead of it.",
        means="Stops the running attempt, as an eviction does; the job waits again, at its old "
        "place ([below](#requeue-retry-clone)).",
        key="give_up",
        of_attempt=True,
        states=ACTIVE_STATES,
        offers=(
            Offer(
                states=frozenset({JobState.STARTING, JobState.RUNNING}),
                says="Its training job is stopped. The job waits again, at its entry time and with "
                "its checkpoints.",
            ),
        ),
    ),
)

BY_NAME: Mapping[str, Verb] = {verb.name: verb for verb in VERBS}
