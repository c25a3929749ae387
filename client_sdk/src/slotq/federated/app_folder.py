"""An app of a federated job: `job.json`, a CreateTrainingJob template, and `source/`, its code.

The code becomes an archive with `slotq_training.py` beside it. It reaches the container as that of
`slotq submit -- COMMAND` does, if the template has a ContainerEntrypoint; with the hyperparameter
`sagemaker_program` it is the archive of script mode.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotq.errors import InvalidRequest
from slotq.packaging import training_file
from slotq.packaging.archive import Pack, pack
from slotq.packaging.command_job import (
    ARCHIVE,
    CHANNEL,
    DRIVER,
    code_folder,
    driver,
    with_code_channel,
)
from slotq_core.wire import strict_json
from slotq_core.wire.training_request import refusal, submission_faults

TEMPLATE, SOURCE = "job.json", "source"
_SCRIPT = "sagemaker_program"
_ALGORITHM = "AlgorithmSpecification"


@dataclass(frozen=True, kw_only=True, slots=True)
class App:
    """An app that has been read."""

    name: str
    template: Mapping[str, Any]
    pack: Pack | None
    """The code; None if there is no `source/`."""

    @property
    def command(self) -> Sequence[str]:
        """What the container runs in the code's folder; empty: not said."""
        said = self.template.get(_ALGORITHM) or {}
        return [*(said.get("ContainerEntrypoint") or ()), *(said.get("ContainerArguments") or ())]

    @property
    def is_script(self) -> bool:
        """Whether the image's toolkit unpacks and runs the code."""
        return not self.command and _SCRIPT in (self.template.get("HyperParameters") or {})


def is_app(folder: Path) -> bool:
    return (folder / TEMPLATE).is_file()


def app_in(folder: Path) -> App:
    """Read an app. Raises InvalidRequest with the file, and NotConfigured for code that cannot be
    packed."""
    where = f"{folder.name}/{TEMPLATE}"
    if not is_app(folder):
        raise InvalidRequest(
            f"{where} is missing: it holds the CreateTrainingJob request that the app's members "
            "are made of",
            field=where,
        )
    try:
        template = strict_json.parse((folder / TEMPLATE).read_bytes())
    except ValueError as error:
        raise InvalidRequest(f"{where} is not JSON: {error}", field=where) from None
    if not isinstance(template, dict):
        raise InvalidRequest(f"{where} must hold one object", field=where)
    _check_types(template, where)
    source = folder / SOURCE
    code = None
    if source.is_dir():
        code = pack(source, beside={training_file.NAME: training_file.content()})
    app = App(name=folder.name, template=template, pack=code)
    if code is not None and not app.command and not app.is_script:
        raise InvalidRequest(
            f"{where} does not say what to run of {SOURCE}/: give {_ALGORITHM} a "
            'ContainerEntrypoint, such as ["python3", "train.py"], or HyperParameters a '
            f"{_SCRIPT}",
            field=where,
        )
    return app


def _check_types(template: Mapping[str, Any], where: str) -> None:
    """Refuse a template in which a value has the wrong type. What is missing is filled in later."""
    given = {key: value for key, value in template.items() if value is not None}
    if faults := [fault for fault in submission_faults(given) if not fault.lacks]:
        error = refusal(faults)
        error.within(where)
        raise error


def code_of(app: App, output: str) -> Mapping[str, bytes]:
    """What to upload for the app, by S3 URI. `output`: the S3 URI below which it lies."""
    if app.pack is None:
        return {}
    place = code_folder(output, app.pack, app.command)
    archive = {f"{place}/{ARCHIVE}": app.pack.content}
    return archive if app.is_script else archive | {f"{place}/{DRIVER}": driver(app.command)}


def with_code(app: App, request: Mapping[str, Any], output: str) -> dict[str, Any]:
    """The request that runs the app's code."""
    if not (uploads := code_of(app, output)):
        return dict(request)
    archive = next(iter(uploads))
    if app.is_script:
        values = {**request["HyperParameters"], "sagemaker_submit_directory": json.dumps(archive)}
        return {**request, "HyperParameters": values}
    entry = ["/bin/sh", f"/opt/ml/input/data/{CHANNEL}/{DRIVER}"]
    algorithm = {**request[_ALGORITHM], "ContainerEntrypoint": entry}
    algorithm.pop("ContainerArguments", None)  # The driver has them.
    with_channel = with_code_channel(request, archive.rpartition("/")[0] + "/")
    return {**with_channel, _ALGORITHM: algorithm}
