"""JSON output of commands that do not print one of the queue's own views."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from slotq.cost.used import UsageLineView
from slotq_core.wire import VERSION
from slotq_core.wire.views.about import DoctorView
from slotq_core.wire.views.jobs import QueueView


class LogLine(BaseModel):
    """One line of a job's logs."""

    version: int = VERSION
    job: str
    training_job: str
    """The training job of the attempt that wrote the line."""
    message: str


class CheckView(BaseModel):
    """One check of the way from this machine to the queue."""

    name: str
    """For programs: `settings`, `name`, `route`, `credentials`, `answer`, `clock`, `permissions`,
    `versions`; and `queue` if only operators may see the queue's findings."""
    ok: bool | None
    """None: skipped, because an earlier check failed."""
    text: str
    advice: str = ""
    """What to do after a failure."""


class CheckupView(DoctorView):
    """The checks of the way from this machine to the queue, and the queue's findings about itself.

    There are no findings if the queue was not asked."""

    checks: list[CheckView]


class SettingView(BaseModel):
    name: str
    value: str | int | None
    source: str
    """`argument`, `SLOTQ_…`, the file and its profile, or `not set`."""


class SettingsView(BaseModel):
    """The settings that apply here."""

    version: int = VERSION
    file: str
    """The config file, whether or not it exists."""
    settings: list[SettingView]


class PricesView(BaseModel):
    as_of: str
    region: str
    source: str
    without_price: list[str]
    """The instance types that were used and have no price."""


class UsageView(BaseModel):
    """What jobs have used."""

    version: int = VERSION
    start: str
    end: str
    as_of: str
    """Until when running attempts are counted."""
    by: list[str]
    lines: list[UsageLineView]
    total: UsageLineView
    prices: PricesView
    unreadable: int
    """Records that the queue could not read and that are not counted."""


class AccountJobView(BaseModel):
    """A job of the account that is in progress."""

    name: str
    status: str
    """SageMaker's own word: `InProgress`, `Stopping`."""
    created_at: str
    instances: dict[str, int]
    """By instance type. Empty for a tuning or AutoML job, whose instances are those of the jobs
    that it starts; and where the job could not be looked at."""
    started_by: str = ""
    """The ARN of the tuning, AutoML, labeling or training job or of the monitoring schedule that
    started it; empty: a call of its own."""


class AccountKindView(BaseModel):
    """The jobs of one kind that are in progress."""

    kind: str
    """`training`, `processing`, `transform`, `tuning`, `automl`."""
    jobs: list[AccountJobView]
    """Without those of queues of SlotQ."""
    of_queues: dict[str, int] = {}
    """How many jobs belong to queues of SlotQ, by the queue's name; they are not in `jobs`."""
    left_out: int = 0
    """How many jobs in progress were not looked at, because there are too many."""
    listed: int = 0
    """How many jobs were listed, the newest first, in progress or ended."""
    complete: bool = True
    """Whether all jobs of the last 90 days were listed."""
    problem: str = ""
    """Why jobs of this kind could not be read."""


class AccountView(BaseModel):
    """What runs in the account and region beside the queue."""

    version: int = VERSION
    kinds: list[AccountKindView]
    training_pools: dict[str, list[str]]
    """The queue's pools by instance type: training jobs past the queue take their instances."""


class VersionView(BaseModel):
    slotq: str
    """Version of this program."""
    wire: int
    """Version of the JSON format it uses."""


class NotifiedView(BaseModel):
    """A test of a notification."""

    version: int = VERSION
    notification: str
    sent: bool
    """Whether its receiver has taken it; false: nothing was sent."""
    message: dict[str, Any]
    """As webhooks get it."""


class GraphGroup(BaseModel):
    """A group in the graph of dependencies."""

    name: str
    after: list[str]
    """What all its members come after."""
    states: dict[str, int]
    """How many of its known members are in each state."""


class GraphView(QueueView):
    """Jobs and groups that come after each other. `jobs` has the members of the groups, too."""

    groups: list[GraphGroup]


class StackChangeView(BaseModel):
    """What a deployment does to one resource of the stack."""

    action: str
    """`Add`, `Modify`, `Remove`, `Import` or `Dynamic`, as CloudFormation says."""
    resource: str
    kind: str
    """CloudFormation's type, such as `AWS::Lambda::Function`."""
    replaced: bool
    """Whether it may be made anew."""


class DeploymentView(BaseModel):
    """A deployment of a release."""

    version: int = VERSION
    release: str
    """The version of SlotQ."""
    stack: str
    region: str
    bucket: str
    """Where the code lies."""
    deployed: bool
    """False: nothing was changed, because nothing differs or with `--dry-run`."""
    changes: list[StackChangeView]
    outputs: dict[str, str]
    """The stack's outputs: `ApiUrl` and others."""
    quick_create: str
    """The address of the console's page that creates the same stack."""
