"""What the commands say in JSON where it is not the queue's own view."""

from __future__ import annotations

from pydantic import BaseModel

from slotq_core.wire.views import VERSION, DoctorView


class LogLine(BaseModel):
    """One line of a job's logs."""

    version: int = VERSION
    job: str
    training_job: str
    """The attempt's."""
    message: str


class CheckView(BaseModel):
    """One thing that has to be right between this machine and the queue."""

    name: str
    """For programs: `settings`, `name`, `route`, `credentials`, `answer`, `clock`, `permissions`,
    `versions`; and `queue`, where only operators may ask what the queue finds."""
    ok: bool | None
    """None: it could not be looked at, because of one before it."""
    text: str
    advice: str = ""
    """What to do where it is not all right."""


class CheckupView(DoctorView):
    """What stands between this machine and the queue; and what the queue finds wrong with itself,
    nothing where it was not asked."""

    checks: list[CheckView]


class SettingView(BaseModel):
    name: str
    value: str | int | None
    source: str
    """`argument`, `SLOTQ_…`, the file and its profile, or `not set`."""


class SettingsView(BaseModel):
    """The settings that count here."""

    version: int = VERSION
    file: str
    """The config file, whether it is there or not."""
    settings: list[SettingView]


class VersionView(BaseModel):
    slotq: str
    """This program's."""
    wire: int
    """That of the JSON that it speaks."""
