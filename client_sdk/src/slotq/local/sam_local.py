"""The files with which `sam local` runs the built functions against a running emulator.

The SAM CLI sets only the variables that a template declares. So `write` copies the built template
with the local variables declared, and writes a file with the values of all variables.
"""

from __future__ import annotations

import json
import platform
import re
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slotq.local.keys import USER
from slotq.local.services.aws import TABLE
from slotq.local.state import Running
from slotq_core.errors import SlotQError

BUILD = Path(".aws-sam/build")
"""Where `sam build` puts what it has built."""
TEMPLATE, VALUES = "sam-local.yaml", "sam-local.json"
DECLARED = ("AWS_ENDPOINT_URL", "SLOTQ_INLINE_PASS", "SLOTQ_LOCAL_CALLER")
"""The variables that the deployed template lacks."""
_VARIABLES = re.compile(r"^( +)Variables:\n", re.MULTILINE)
"""The first are those of all functions (Globals)."""


class NotBuilt(SlotQError):
    """`sam build` has not run here."""


class OutOfReach(SlotQError):
    """The emulator does not answer at the address that containers use."""


@dataclass(frozen=True, kw_only=True)
class Written:
    template: Path
    values: Path

    def options(self) -> list[str]:
        """The options of `sam local` that name both files, and this machine's processor."""
        return [
            *("--template", str(self.template), "--env-vars", str(self.values)),
            *("--parameter-overrides", f"Architecture={_processor()}"),
        ]


def _processor() -> str:
    """This machine's processor, as the template's parameter names it."""
    return {"aarch64": "arm64"}.get(platform.machine(), platform.machine())


def host_for_containers() -> str:
    """This machine's usual name in a container: the gateway of Docker's own network on Linux, the
    name of Docker Desktop elsewhere."""
    return "172.17.0.1" if sys.platform == "linux" else "host.docker.internal"


def write(running: Running, *, build: Path = BUILD, host: str) -> Written:
    """Write both files into the build folder. `host`: this machine's name in a container.

    Raises NotBuilt and OutOfReach.
    """
    port = running.url.rpartition(":")[2]
    try:
        built = (build / "template.yaml").read_text()
    except OSError:
        raise NotBuilt(f"{build} has no template.yaml: run `sam build` first") from None
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        raise OutOfReach(
            f"nothing answers at {host}:{port}, where containers look for the emulator: start it "
            f"with `slotq local start --host 0.0.0.0 --name {host}`, or say with --host where "
            "containers reach this machine"
        ) from None
    written = Written(template=build / TEMPLATE, values=build / VALUES)
    written.template.write_text(_with_local_variables(built))
    values = {"Parameters": _values(running, f"http://{host}:{port}")}
    written.values.write_text(json.dumps(values, indent=2) + "\n")
    return written


def _with_local_variables(built: str) -> str:
    first = _VARIABLES.search(built)
    if first is None:
        raise NotBuilt("the built template is not SlotQ's: no function has variables")
    lines = "".join(f'{first[1]}  {name}: ""\n' for name in DECLARED)
    return built[: first.end()] + lines + built[first.end() :]


def _values(running: Running, url: str) -> Mapping[str, str]:
    """Empty: not set, as in the emulator."""
    return {
        "AWS_ENDPOINT_URL": url,
        "SLOTQ_INLINE_PASS": "1",  # a switch, no password # nosec B105
        "SLOTQ_LOCAL_CALLER": f"arn:aws:iam::{running.endpoint.account}:user/{USER}",
        "SLOTQ_TABLE": TABLE,
        "SLOTQ_POOLS": running.pools,
        "SLOTQ_EXECUTION_ROLES": "",
        "SLOTQ_TRAINING_PLANS": "",
        "SLOTQ_DEAD_LETTERS": "",
        "SLOTQ_ANNOUNCE": "",
        "POWERTOOLS_SERVICE_NAME": "slotq",
    }
