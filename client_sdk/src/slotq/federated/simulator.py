"""A folder of FLARE's whose apps have FLARE's `config/` and no `job.json`.

Nothing in it says what a member runs. FLARE's own simulator can run the whole job, server and
clients, in one training job from an image that has FLARE: that job is the group's server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from slotq.errors import InvalidRequest
from slotq.federated.app_folder import TEMPLATE, FederatedApp, is_app
from slotq.federated.meta import Meta
from slotq.federated.sites import SERVER
from slotq.packaging.archive import IGNORE_FILES, listed, pack

_CONFIG = "config"
_FORMS = (".json", ".conf", ".yml", ".yaml")
"""Endings of FLARE's configurations."""
_ROLES = {True: "config_fed_server", False: "config_fed_client"}
"""FLARE's configuration of the server, and of the clients."""
_RUN = """\
command -v nvflare > /dev/null || { echo "the image has no nvflare: install it there, or give \
each app a job.json" >&2; exit 127; }
find . -exec touch {} +
exec nvflare simulator "$PWD" -w "$SM_MODEL_DIR" -c "$0" -t "$1" -m "$1"
"""
"""`$0`: the clients; `$1`: their number. FLARE makes a ZIP of the folder, and files in the code's
archive are older than a ZIP can say."""


def is_flares(folder: Path) -> bool:
    """Whether an app has FLARE's configuration, and nothing in the folder has a request."""
    apps = [place for place in folder.iterdir() if place.is_dir()]
    if is_app(folder) or any(map(is_app, apps)):
        return False
    return any(_has(app, name) for app in apps for name in _ROLES.values())


def _has(app: Path, name: str) -> bool:
    return any((app / _CONFIG / f"{name}{form}").is_file() for form in _FORMS)


def simulation(
    folder: Path, meta: Meta, *, deployed: Sequence[str]
) -> tuple[Meta, Mapping[str, FederatedApp]]:
    """The job as one member, the server, and its app. `deployed`: the folders that deploy_map
    names. Raises InvalidRequest for an app without the configuration of its role."""
    for site, name in meta.apps.items():
        role = _ROLES[site == SERVER]
        if not _has(folder / name, role):
            raise InvalidRequest(
                f"{name} is deployed to '{site}' and has neither {_CONFIG}/{role}.json (or .conf, "
                f".yml), for FLARE to run, nor a {TEMPLATE}, for the queue to run",
                field=f"{name}/{_CONFIG}/{role}.json",
            )
    files = [name for name in listed(folder).files if _is_shipped(name, deployed)]
    clients = meta.clients
    job = folder.name
    command = ["sh", "-c", _RUN, ",".join(clients), str(len(clients))]
    app = FederatedApp(
        name=job,
        template={"AlgorithmSpecification": {"ContainerEntrypoint": command}},
        where="",
        pack=pack(folder, files=files),
    )
    alone = f"no {TEMPLATE} says what a member runs, so FLARE's simulator plays {SERVER}, "
    said = (
        f"{alone}{', '.join(clients)} in the one job {meta.members[SERVER]}; no pool of a client "
        "is used, and resource_spec has no effect"
    )
    one = replace(
        meta,
        apps={SERVER: job},
        needs={},
        min_clients=0,
        mandatory=(),
        pools={site: pool for site, pool in meta.pools.items() if site == SERVER},
        heartbeat=None,
        warnings=(*meta.warnings, said),
    )
    return one, {job: app}


def _is_shipped(name: str, deployed: Sequence[str]) -> bool:
    top, below, _ = name.partition("/")
    return name not in IGNORE_FILES and (top in deployed or not below)
