"""JSON output of commands that do not print one of the queue's own views."""

from __future__ import annotations

from pydantic import BaseModel

from slotq_core.wire.views import VERSION, DoctorView


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


class VersionView(BaseModel):
    slotq: str
    """Version of this program."""
    wire: int
    """Version of the JSON format it uses."""
