"""Runs one processing job: a training run with a processing container's contract.

/opt/ml/processing/…                 the inputs, and the folders of the outputs
/opt/ml/config/processingjobconfig.json and resourceconfig.json
/opt/ml/output/message               what Describe shows as ExitMessage

An output of mode Continuous is uploaded whatever the end, one of mode EndOfJob if the job
completes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from slotq.local.container import transfer
from slotq.local.container.archives import is_own_file
from slotq.local.container.transfer import JobInputError
from slotq.local.container.workdir import OPT_ML, Host, resource_config
from slotq.local.training.runner import WorkEnd
from slotq.local.training.training_run import TrainingRun
from slotq_core.model.capacity.work import WorkKind
from slotq_core.names import LOG_GROUPS
from slotq_core.wire.training.processing_request import NAME, TRAINING_NAME, as_processing

_FOLDER = f"{OPT_ML}/processing"
_TRAINING_VARIABLES = ("SM_", "TRAINING_JOB_")
"""What the names of variables begin with that only training containers have."""


class ProcessingRun(TrainingRun):
    log_group = LOG_GROUPS[WorkKind.PROCESSING]
    message_file = "output/message"

    def _fetch(self, host: Host, place: int) -> None:
        asked = as_processing(self._request)
        asked = {key: value for key, value in asked.items() if key != "Tags"}
        config = resource_config(host, self._request)
        folder = host.root / "config"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "processingjobconfig.json").write_text(json.dumps(asked))
        (folder / "resourceconfig.json").write_text(json.dumps(config))
        for one in self._request.get("ProcessingInputs") or ():
            self._fetch_input(one, host, place)
        for one, _ in self._outputs():
            _local(host, one["LocalPath"]).mkdir(parents=True, exist_ok=True)

    def _fetch_input(self, one: Mapping[str, Any], host: Host, place: int) -> None:
        named, source = f"input '{one.get('InputName', '')}'", one.get("S3Input")
        if source is None or source.get("S3DataType") != "S3Prefix":
            raise JobInputError(f"{named}: the emulator reads S3Input of S3Prefix only")
        if source.get("S3InputMode", "File") != "File" or not source.get("LocalPath"):
            raise JobInputError(f"{named}: the emulator reads files only, to a LocalPath")
        transfer.fetch_prefix(
            self._services.storage,
            source["S3Uri"],
            _local(host, source["LocalPath"]),
            shard=(place, len(self._hosts))
            if source.get("S3DataDistributionType") == "ShardedByS3Key"
            else None,
        )

    def _upload_results(self, ended: WorkEnd) -> None:
        for one, mode in self._outputs():
            if ended.code != 0 and mode != "Continuous":
                continue
            for host in self._hosts:
                base = _local(host, one["LocalPath"])
                for file in sorted(base.rglob("*")):
                    if is_own_file(file, host.root):
                        name = file.relative_to(base).as_posix()
                        where = f"{one['S3Uri'].rstrip('/')}/{name}"
                        self._services.storage.put(file, where)

    def _outputs(self) -> Iterator[tuple[Mapping[str, Any], str]]:
        config = self._request.get("ProcessingOutputConfig") or {}
        for output in config.get("Outputs") or ():
            one = output.get("S3Output")
            if one is None or not one.get("LocalPath"):
                name = output.get("OutputName", "")
                raise JobInputError(f"output '{name}': the emulator writes to S3 only")
            yield one, one.get("S3UploadMode", "EndOfJob")

    def _own_environment(self, environment: dict[str, str]) -> dict[str, str]:
        asked = self._request.get("Environment") or {}
        return {
            key: value
            for key, value in environment.items()
            if key in asked or not key.startswith(_TRAINING_VARIABLES)
        }


def container_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """The request as a training run reads it."""
    return {
        "OutputDataConfig": {},
        **request,
        TRAINING_NAME: request[NAME],
        "ResourceConfig": {"InstanceCount": 1, **request["ResourceConfig"]},
    }


def _local(host: Host, path: str) -> Path:
    if not path.startswith(f"{_FOLDER}/") and path != _FOLDER:
        raise JobInputError(f"'{path}': a LocalPath is below {_FOLDER}")
    try:
        return host.path(path)
    except ValueError:
        raise JobInputError(f"'{path}' points outside {_FOLDER}") from None
