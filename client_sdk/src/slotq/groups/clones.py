"""The members of a group, once more under other names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from slotq_core import names
from slotq_core.wire.groups.sweep import SweepView

NONE: Mapping[str, str] = MappingProxyType({})


def names_of_clones(
    group: str, jobs: Sequence[str], new: str, members: Mapping[str, str] = NONE
) -> dict[str, str]:
    """The new name of each job: `ring-1` of the group `ring` becomes `other-1` in `other`, and any
    other job `a` becomes `other-a`. Where that is too long, or gives a name twice, they are
    numbered. `members`: by job, the member that it stands for, if that is another."""
    made = {job: _renamed(members.get(job, job), group, new) for job in jobs}
    taken = {*made.values()}
    if len(taken) < len(made) or any(len(name) > names.LONGEST for name in taken):
        digits = len(str(len(jobs)))
        stem = new[: names.LONGEST - 1 - digits].rstrip("-")
        made = {job: f"{stem}-{number}" for number, job in enumerate(jobs, 1)}
    return {**{members.get(job, job): name for job, name in made.items()}, **made}


def members_of(sweep: SweepView | None) -> dict[str, str]:
    """By job, the member of the sweep that it stands for."""
    return {trial.job: trial.name for trial in (sweep.trials if sweep else ()) if trial.job}


def told_again(sweep: SweepView | None) -> dict[str, Any] | None:
    """What the sweep tries and looks for, as a submission says it."""
    if sweep is None:
        return None
    tried = [trial.parameters for trial in sweep.trials if trial.parameters is not None]
    said: dict[str, Any] = {"parameters": tried} if len(tried) == len(sweep.trials) else {}
    if sweep.metric:
        said |= {"metric": sweep.metric, "maximize": sweep.maximize}
    return said if sweep.goal is None else {**said, "goal": sweep.goal}


def _renamed(name: str, group: str, new: str) -> str:
    if name == group:
        return new
    return new + (name.removeprefix(group) if name.startswith(f"{group}-") else f"-{name}")


def cloned(request: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """The request under its new name; where it comes after other members, after their clones."""
    tags = [
        {**tag, "Value": _following(tag["Value"], renamed)}
        if tag["Key"] in names.AFTER_TAGS
        else tag
        for tag in request.get("Tags") or ()
    ]
    name = renamed[request["TrainingJobName"]]
    return {**request, "TrainingJobName": name, **({"Tags": tags} if tags else {})}


def _following(jobs: str, renamed: Mapping[str, str]) -> str:
    listed = (name for name in re.split("[, ]+", jobs) if name)
    return ",".join(renamed.get(name, name) for name in listed)
