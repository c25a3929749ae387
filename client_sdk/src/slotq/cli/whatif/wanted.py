"""The options of `slotq whatif`, read as a change of the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TextIO, TypedDict

import click

from slotq.cli.verbs.request_file import read_object
from slotq.cli.words import PRIORITY, Seconds
from slotq.errors import InvalidRequest
from slotq.jobs.submission import jsonable, settings_tags, with_tags
from slotq_core.gpu_amounts import read_gpus
from slotq_core.model.jobs import Preemptible, Workload
from slotq_core.wire.setting_tags import PREEMPTIBLE, PREEMPTIBLE_WORDS

if TYPE_CHECKING:
    from slotq.client import QueueClient
    from slotq.simulate.whatif import ForecastInput, MoreSlots, NewJob, WhatIfChange
    from slotq_core.wire.views.about import MeView

_LONGEST = 10_000_000_000
_KEYS = ("name", "slots", "pool", "priority", "project", "class", "preemptible", "gpus")


def milliseconds(text: str) -> int:
    """`90s`, `30m`, `4h`, `2d`, or seconds; in milliseconds. Raises BadParameter."""
    return round(Seconds(most=_LONGEST).convert(text, None, None) * 1000)


def _sizes(pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    """`p5=4`: pools with their slots."""
    return {name: _slots(name, text) for name, text in pairs}


def _more(pairs: Sequence[tuple[str, str]]) -> dict[str, MoreSlots]:
    """`p5=2:1w`: pools with the slots that they have in addition, and for how long."""
    from slotq.simulate.whatif import MoreSlots

    try:
        return {name: MoreSlots.read(name, text) for name, text in pairs}
    except InvalidRequest as error:
        raise click.UsageError(str(error)) from None


def _quotas(pairs: Sequence[tuple[str, str]]) -> dict[str, object]:
    """`team-a=3` or `team-a={p5: 3}`: projects with their quotas, as the configuration has them."""
    return {name: _yaml(name, text, "slots, or a mapping such as {p5: 3}") for name, text in pairs}


def _settings(pairs: Sequence[tuple[str, str]]) -> dict[str, object]:
    """`fair_share.half_life=7d`: settings, as the configuration has them."""
    return {path: _yaml(path, text, "a value as in the configuration") for path, text in pairs}


def _priorities(pairs: Sequence[tuple[str, str]]) -> dict[str, int | str]:
    return {name: PRIORITY.convert(text, None, None) for name, text in pairs}


def _moves(pairs: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(part.strip() for part in text.split(",")) for name, text in pairs}


def _with_nodes(texts: Sequence[str]) -> dict[str, int]:
    """`p5` or `p5=8`: pools that keep nodes, with the GPUs of one instance."""
    pairs = (text.partition("=") for text in texts)
    return {name: _whole(name, number) if equals else 0 for name, equals, number in pairs}


def _gpus_of(pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    """`trial=0.25`: jobs or groups with the GPUs that they ask for, in hundredths."""
    return {name: _gpus(name, text) for name, text in pairs}


class ChangeOptions(TypedDict):
    """The options that change what there is, as they are given."""

    pools: tuple[tuple[str, str], ...]
    more_: tuple[tuple[str, str], ...]
    quotas_: tuple[tuple[str, str], ...]
    settings_: tuple[tuple[str, str], ...]
    priorities_: tuple[tuple[str, str], ...]
    moves_: tuple[tuple[str, str], ...]
    nodes_: tuple[str, ...]
    gpus_: tuple[tuple[str, str], ...]
    cancel: tuple[str, ...]
    hold: tuple[str, ...]
    release: tuple[str, ...]


def change_of(options: ChangeOptions) -> WhatIfChange:
    """The change that these options ask for. Raises UsageError."""
    from slotq.simulate.whatif import WhatIfChange

    return WhatIfChange(
        pools=_sizes(options["pools"]),
        more=_more(options["more_"]),
        quotas=_quotas(options["quotas_"]),
        settings=_settings(options["settings_"]),
        priorities=_priorities(options["priorities_"]),
        moves=_moves(options["moves_"]),
        nodes=_with_nodes(options["nodes_"]),
        gpus=_gpus_of(options["gpus_"]),
        cancels=options["cancel"],
        holds=options["hold"],
        releases=options["release"],
    )


@dataclass(frozen=True, kw_only=True)
class WantedChange:
    """The change, and the requests behind its new jobs."""

    change: WhatIfChange
    requests: tuple[dict[str, Any], ...] = ()
    """The requests of --submit."""
    invented: bool = False
    """Whether a new job has no request (--add)."""

    def touched(self, queue: ForecastInput) -> set[str]:
        """The jobs that the change names, by their own name or their group's."""
        from slotq.simulate.whatif.changes import named

        change = self.change
        return {
            *change.priorities,
            *change.moves,
            *(job.name for name in change.gpus for job in named(queue, name)),
            *change.cancels,
            *change.holds,
            *change.releases,
            *(new.submission.name for new in change.submits),
        }

    @property
    def is_nothing(self) -> bool:
        from slotq.simulate.whatif import WhatIfChange

        return self.change == WhatIfChange()


def with_new_jobs(
    client: QueueClient,
    change: WhatIfChange,
    files: Sequence[TextIO],
    added: Sequence[str],
    *,
    pools: Sequence[str],
) -> WantedChange:
    """The change with jobs from request files and from descriptions (`slots=2,pool=p5`). `pools`:
    the names of those that there are."""
    from slotq.jobs.sagemaker_model import check

    if not files and not added:
        return WantedChange(change=change)
    me, config = client.service.me(), client.config
    requests = []
    for file in files:
        tags = settings_tags(priority=config.priority, project=config.project)
        request = with_tags(read_object(file), tags)
        check(jsonable(request))
        requests.append(request)
    news = [_of_request(request, me) for request in requests]
    news += [
        _described(text, number, pools, me, config.project)
        for number, text in enumerate(added, start=1)
    ]
    return WantedChange(
        change=replace(change, submits=tuple(news)),
        requests=tuple(requests),
        invented=bool(added),
    )


def _of_request(request: Mapping[str, Any], me: MeView) -> NewJob:
    from slotq.simulate.whatif import NewJob
    from slotq.simulate.whatif.changes import in_project
    from slotq_core.wire.submission import parse_submission

    submission, _ = parse_submission(jsonable(request))
    longest = (request.get("StoppingCondition") or {}).get("MaxRuntimeInSeconds")
    return NewJob(
        submission=in_project(submission, me),
        submitter=me.caller,
        max_runtime=None if longest is None else int(longest) * 1000,
        request=request,
    )


def _described(
    text: str, number: int, pools: Sequence[str], me: MeView, project: str | None
) -> NewJob:
    """A job of `slots=2,pool=p5,priority=9`."""
    from slotq.simulate.whatif.changes import described

    values = dict(part.partition("=")[::2] for part in text.split(","))
    if wrong := next((key for key, value in values.items() if key not in _KEYS or not value), None):
        raise click.UsageError(f"--add {text}: '{wrong}' is not one of {', '.join(_KEYS)}, with =")
    if "pool" not in values and len(pools) != 1:
        raise click.UsageError(f"--add {text}: name a pool, such as pool={pools[0]}")
    priority = values.get("priority")
    return described(
        me,
        name=values.get("name", f"new-job-{number}"),
        slots=_slots("slots", values.get("slots", "1")),
        pool=values.get("pool", pools[0]),
        priority=None if priority is None else PRIORITY.convert(priority, None, None),
        project=values.get("project", project or ""),
        workload=_workload(values.get("class", Workload.TRAINING.value)),
        preemptible=_preemptible(values.get("preemptible", "true")),
        gpus=_gpus("gpus", values["gpus"]) if "gpus" in values else 0,
    )


def _slots(name: str, text: str) -> int:
    return _whole(name, text, "slots")


def _whole(name: str, text: str, what: str = "GPUs") -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 7:
        raise click.UsageError(f"{name}={text}: give a number of {what}")
    return int(text)


def _gpus(name: str, text: str) -> int:
    try:
        return read_gpus(text)
    except ValueError as error:
        raise click.UsageError(f"{name}={text}: {error}") from None


def _yaml(name: str, text: str, what: str) -> object:
    import yaml

    from slotq.document.yaml_file import NOT_YAML

    try:
        return yaml.safe_load(text)
    except NOT_YAML:
        raise click.UsageError(f"{name}={text}: give {what}") from None


def _workload(text: str) -> Workload:
    try:
        return Workload(text)
    except ValueError:
        kinds = ", ".join(kind.value for kind in Workload)
        raise click.UsageError(f"class={text}: the classes are {kinds}") from None


def _preemptible(text: str) -> Preemptible:
    if text not in PREEMPTIBLE:
        raise click.UsageError(f"preemptible={text}: give {PREEMPTIBLE_WORDS}")
    return PREEMPTIBLE[text]
