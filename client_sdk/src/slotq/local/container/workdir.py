"""The /opt/ml of each host of a training job: location, and the files that SageMaker writes
there."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotq.local.container.archives import below, is_own_file

OPT_ML = "/opt/ml"
NETWORK_INTERFACE = "lo"
"""All hosts of a job are this machine."""
_LONGEST_FAILURE = 64 * 1024
"""Bytes read of /opt/ml/output/failure. SageMaker shows 1,024 characters."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """One instance of a training job."""

    name: str
    """`algo-1`, `algo-2` …"""
    root: Path
    """The real folder that the job sees as /opt/ml."""
    isolated: bool
    """Whether the job's processes have `root` mounted at /opt/ml."""
    contained: bool = False
    """Whether they have no rights beyond a container's: a node's, whose jobs are users of their
    own."""

    @property
    def seen(self) -> str:
        """The path of `root` inside the job."""
        return OPT_ML if self.isolated else str(self.root)

    def path(self, seen: str) -> Path:
        """The real path of a path under /opt/ml. Raises ValueError for any other path."""
        return below(self.root, Path(seen).relative_to(OPT_ML).as_posix())

    def text(self, text: str) -> str:
        """The text, with /opt/ml replaced by the path that the job sees."""
        return text if self.isolated else text.replace(OPT_ML, str(self.root))

    @property
    def environment(self) -> Path:
        """The virtual environment that the job installs packages into. Gone with the job."""
        # Other users cannot enter the folder above.
        return (self.root if self.contained else self.root.parent) / "python"

    @property
    def seen_environment(self) -> str:
        """The path of `environment` inside the job."""
        return f"{self.seen}/python" if self.contained else str(self.environment)

    @property
    def home(self) -> Path:
        """Where `pip install --user` puts packages. Gone with the job."""
        return self.root.parent / "user"

    @property
    def failure(self) -> str:
        """The beginning of /opt/ml/output/failure."""
        return self.said_in("output/failure")

    def said_in(self, path: str) -> str:
        """The beginning of a file that the job writes for SageMaker."""
        file = self.root / path
        if not is_own_file(file, self.root):
            return ""
        with file.open("rb") as said:
            return said.read(_LONGEST_FAILURE).decode(errors="replace").strip()


def hosts_of(
    request: Mapping[str, Any], work: Path, *, isolated: bool, contained: bool = False
) -> list[Host]:
    """The hosts of a job, below the job's work folder."""
    names = [name for _, group in groups_of(request) for name in group]
    return [
        Host(name=name, root=work / name / "ml", isolated=isolated, contained=contained)
        for name in names
    ]


def groups_of(request: Mapping[str, Any]) -> list[tuple[dict[str, Any], list[str]]]:
    """Each instance group with the names of its hosts. One group if the request names none."""
    resources = request["ResourceConfig"]
    groups = resources.get("InstanceGroups") or [
        {"InstanceGroupName": "homogeneousCluster", **resources}
    ]
    placed, first = [], 1
    for group in groups:
        count = int(group.get("InstanceCount", 1))
        placed.append((group, [f"algo-{n}" for n in range(first, first + count)]))
        first += count
    return placed


def lay_out(host: Host, request: Mapping[str, Any]) -> None:
    """Create the folders and the input/config/*.json files."""
    for folder in ("input/config", "input/data", "model", "output/data", "code", "checkpoints"):
        (host.root / folder).mkdir(parents=True, exist_ok=True)
    _write(host, "hyperparameters", dict(request.get("HyperParameters") or {}))
    _write(host, "resourceconfig", resource_config(host, request))
    _write(host, "inputdataconfig", input_data_config(request))


def resource_config(host: Host, request: Mapping[str, Any]) -> dict[str, Any]:
    groups = groups_of(request)
    own = next(group for group, names in groups if host.name in names)
    return {
        "current_host": host.name,
        "current_instance_type": own.get("InstanceType", ""),
        "current_group_name": own.get("InstanceGroupName", ""),
        "hosts": [name for _, names in groups for name in names],
        "instance_groups": [
            {
                "instance_group_name": group.get("InstanceGroupName", ""),
                "instance_type": group.get("InstanceType", ""),
                "hosts": names,
            }
            for group, names in groups
        ],
        "network_interface_name": NETWORK_INTERFACE,
    }


def input_data_config(request: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    channels = request.get("InputDataConfig") or ()
    return {channel["ChannelName"]: _channel(channel) for channel in channels}


def _channel(channel: Mapping[str, Any]) -> dict[str, str]:
    source = channel.get("DataSource", {}).get("S3DataSource", {})
    return {
        "TrainingInputMode": channel.get("InputMode", "File"),
        "S3DistributionType": source.get("S3DataDistributionType", "FullyReplicated"),
        "RecordWrapperType": channel.get("RecordWrapperType", "None"),
    }


def etc_hosts(names: Sequence[str]) -> str:
    """The /etc/hosts text: every host of the job is this machine."""
    return f"127.0.0.1 localhost {' '.join(names)} {socket.gethostname()}\n::1 localhost\n"


def _write(host: Host, name: str, value: Any) -> None:
    (host.root / f"input/config/{name}.json").write_text(json.dumps(value))
