"""An app of a federated job: a folder with `job.json`, a CreateTrainingJob template, and its code.

Everything else in the folder is shipped unchanged, with `slotq_training.py` beside the code. The
command starts in `source/`, if present, else at the folder's top, so relative paths work in the
container as on the user's machine. The archive reaches the container as that of `slotq submit --
COMMAND` does, if the template has a ContainerEntrypoint. With the hyperparameter
`sagemaker_program` it is the archive of script mode, which the image's toolkit unpacks and runs:
then `source/`, if there is one, is all of it, and files beside it are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotq.errors import InvalidRequest
from slotq.packaging import training_file
from slotq.packaging.archive import IGNORE_FILES, Pack, listed, pack
from slotq.packaging.command_job import (
    ARCHIVE,
    CHANNEL,
    DRIVER,
    code_folder,
    driver,
    with_code_channel,
)
from slotq_core.wire import strict_json
from slotq_core.wire.training.training_request import refusal, submission_faults

TEMPLATE, SOURCE = "job.json", "source"
_SCRIPT = "sagemaker_program"
_ALGORITHM = "AlgorithmSpecification"
_NAMED = 5
"""How many files a message names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FederatedApp:
    """An app that has been read."""

    name: str
    template: Mapping[str, Any]
    where: str
    """The file that the template is from, for messages; empty: none, FLARE's simulator runs."""
    pack: Pack | None
    """The code; None if the folder has none."""
    start: str = ""
    """Where in it the command starts; empty: at its top."""
    warnings: tuple[str, ...] = ()

    @property
    def command(self) -> Sequence[str]:
        """What the container runs; empty: not said."""
        return _command(self.template)

    @property
    def is_script(self) -> bool:
        """Whether the image's toolkit unpacks and runs the code."""
        return _is_script(self.template)

    @property
    def driver(self) -> bytes | None:
        """The script that starts the command; None in script mode."""
        return None if self.is_script else driver(self.command, start=self.start)


def _command(template: Mapping[str, Any]) -> Sequence[str]:
    said = template.get(_ALGORITHM) or {}
    return [*(said.get("ContainerEntrypoint") or ()), *(said.get("ContainerArguments") or ())]


def _is_script(template: Mapping[str, Any]) -> bool:
    return not _command(template) and _SCRIPT in (template.get("HyperParameters") or {})


def is_app(folder: Path) -> bool:
    return (folder / TEMPLATE).is_file()


def app_in(
    folder: Path, *, shared: Path | None = None, more: Mapping[str, bytes] | None = None
) -> FederatedApp:
    """Read an app. `shared`: the folder whose job.json serves an app without one. `more`: further
    files for its code, by name. Raises InvalidRequest with the file, and NotConfigured for code
    that cannot be packed."""
    own = is_app(folder)
    where = f"{folder.name}/{TEMPLATE}"
    if not own and (shared is None or not is_app(shared)):
        raise InvalidRequest(
            f"{where} is missing: it holds the CreateTrainingJob request that the app's members "
            f"are made of. One {TEMPLATE} beside meta.json may serve all apps",
            field=where,
        )
    if not own and shared is not None:
        where, template = TEMPLATE, _template(shared / TEMPLATE, TEMPLATE)
    else:
        template = _template(folder / TEMPLATE, where)
    return _with_code(folder, template, where, more or {})


def _template(file: Path, where: str) -> Mapping[str, Any]:
    try:
        template = strict_json.parse(file.read_bytes())
    except ValueError as error:
        raise InvalidRequest(f"{where} is not JSON: {error}", field=where) from None
    if not isinstance(template, dict):
        raise InvalidRequest(f"{where} must hold one object", field=where)
    _check_types(template, where)
    return template


def _with_code(
    folder: Path, template: Mapping[str, Any], where: str, more: Mapping[str, bytes]
) -> FederatedApp:
    """The app with its files."""
    has_source, is_script = (folder / SOURCE).is_dir(), _is_script(template)
    files, lost = _files(folder, has_source=has_source)
    in_source = [name for name in files if has_source and name.startswith(f"{SOURCE}/")]
    if files and not is_script and not _command(template):
        raise InvalidRequest(
            f"{where} does not say what to run of {_some(folder.name, files)}: give {_ALGORITHM} "
            'a ContainerEntrypoint, such as ["python3", "train.py"], or HyperParameters a '
            f"{_SCRIPT}. Where the image has all that it needs, name the files in .slotqignore",
            field=where,
        )
    root, start = folder, SOURCE if in_source else ""
    if is_script and has_source:
        _check_nothing_beside(folder, [name for name in files if name not in in_source])
        root, start = folder / SOURCE, ""
        files = [name.removeprefix(f"{SOURCE}/") for name in in_source]
    if is_script and files:
        _check_program(template, files, where)
    code = pack(root, files=files, beside=_beside(files, start, more, is_script=is_script))
    return FederatedApp(
        name=folder.name,
        template=template,
        where=where,
        pack=code if files else None,
        start=start,
        warnings=tuple(
            f"{folder.name}/{name} cannot be shipped: it leads nowhere, or is no file"
            for name in lost
        ),
    )


def _files(folder: Path, *, has_source: bool) -> tuple[list[str], list[str]]:
    """The app's files but for its job.json, and what cannot be shipped. The folder and `source/`
    each have an ignore file of their own, and `source/` may be a link."""
    parts = [("", listed(folder, without=[SOURCE] if has_source else ()))]
    if has_source:
        parts.append((f"{SOURCE}/", listed(folder / SOURCE)))
    files = [
        prefix + name for prefix, found in parts for name in found.files if name not in IGNORE_FILES
    ]
    lost = [prefix + name for prefix, found in parts for name in found.lost]
    if all(name.endswith("/") for name in files if name != TEMPLATE):
        return [], lost  # Empty folders are no code.
    return [name for name in files if name != TEMPLATE], lost


def _beside(
    files: Sequence[str], start: str, more: Mapping[str, bytes], *, is_script: bool
) -> dict[str, bytes]:
    """What is added where the command starts."""
    folder = f"{start}/" if start else ""
    there = [name.removeprefix(folder) for name in files if name.startswith(folder)]
    added = {**training_file.beside(there, script_mode=is_script), **more}
    return {folder + name: content for name, content in added.items()}


def _check_nothing_beside(folder: Path, others: Sequence[str]) -> None:
    if others:
        raise InvalidRequest(
            f"{_some(folder.name, others)} would not reach the container: with {_SCRIPT} the "
            f"image's toolkit gets {SOURCE}/ alone. Move what the script needs into {SOURCE}/, "
            "name the rest in .slotqignore, or give a ContainerEntrypoint, which gets the whole "
            "folder",
            field=f"{folder.name}/{others[0]}",
        )


def _check_program(template: Mapping[str, Any], files: Sequence[str], where: str) -> None:
    """Check that the script is among the files; otherwise the toolkit would fail on the
    instance."""
    said = str(template["HyperParameters"][_SCRIPT]).strip('"')
    if said not in files and "setup.py" not in files:
        raise InvalidRequest(
            f"{where}: {_SCRIPT} is '{said}', which is not among the app's files "
            f"({_some('', files)})",
            field=f"{where}.HyperParameters.{_SCRIPT}",
        )


def _some(folder: str, names: Sequence[str]) -> str:
    """The first of these files."""
    shown = [f"{folder}/{name}" if folder else name for name in names[:_NAMED]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _check_types(template: Mapping[str, Any], where: str) -> None:
    """Refuse a template in which a value has the wrong type. What is missing is filled in later."""
    present = {key: value for key, value in template.items() if value is not None}
    if faults := [fault for fault in submission_faults(present) if not fault.lacks]:
        error = refusal(faults)
        error.within(where)
        raise error


def code_of(app: FederatedApp, output: str) -> Mapping[str, bytes]:
    """What to upload for the app, by S3 URI. `output`: the S3 URI below which it lies."""
    if app.pack is None:
        return {}
    script = app.driver
    place = code_folder(output, app.pack, script)
    archive = {f"{place}/{ARCHIVE}": app.pack.content}
    return archive if script is None else archive | {f"{place}/{DRIVER}": script}


def with_code(app: FederatedApp, request: Mapping[str, Any], output: str) -> dict[str, Any]:
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
