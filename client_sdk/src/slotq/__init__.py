"""SlotQ for its users: submit SageMaker training jobs to the queue.

The public names are `__all__`, the errors of `slotq.errors` and the views of
`slotq_core.wire.views`; docs/api.md lists them. `QueueTrainingJobSession` needs the `sagemaker2`
or `sagemaker3` extra. Each name is imported when it is first used.

    client         `QueueClient`
    queue_calls    calls about pools, projects, configuration, usage and the service
    earlier_names  QueueClient's methods under their names of version 0.2
    session        SageMaker's SDKs and boto3, through the queue
    pipelines      steps of SageMaker Pipelines through the queue
    airflow        the queue in Apache Airflow
    aws_members    the members of the AWS calls that are answered here
    jobs           one job, from submission to end
    groups         jobs submitted together
    federated      federated jobs in folders
    sweeps         many jobs from one request
    packaging      a folder and a command as a training job
    transport      signed HTTP calls
    configuration  the user's settings
    cli            the program `slotq`
    output         tables and JSON
    checkup        checks of the way from this machine to the queue
    account        what runs in the account beside the queue
    remote_shell   a shell in a running job, and its ports here
    ui             the queue in the browser
    cost           what a queue costs
    deployment     a queue from the folder of a release
    document       a queue's configuration as a YAML file
    simulate       the policy on a virtual clock
    local          the whole system on this machine
    demo           the use case, played
    installation   where slotq was installed from, and how to install its extras
    errors         what can go wrong on the user's side
    version        the version
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slotq.version import __version__

if TYPE_CHECKING:
    from slotq.client import QueueClient
    from slotq.groups.gathering import gang
    from slotq.jobs.job import QueuedJob
    from slotq.output.plain_table import print_queue_state
    from slotq.session.answers.other_calls import direct
    from slotq.session.install import install
    from slotq.session.installed_sdk import QueueTrainingJobSession
    from slotq.sweeps.space import (
        choice,
        integer,
        log_integer,
        log_uniform,
        reverse_log_uniform,
        uniform,
    )
    from slotq.sweeps.sweep import Sweep

__all__ = [
    "QueueClient",
    "QueueTrainingJobSession",
    "QueuedJob",
    "Sweep",
    "__version__",
    "choice",
    "direct",
    "gang",
    "install",
    "integer",
    "log_integer",
    "log_uniform",
    "print_queue_state",
    "reverse_log_uniform",
    "uniform",
]

_HOME = {
    "QueueClient": "slotq.client",
    "QueueTrainingJobSession": "slotq.session.installed_sdk",
    "QueuedJob": "slotq.jobs.job",
    "direct": "slotq.session.answers.other_calls",
    "gang": "slotq.groups.gathering",
    "Sweep": "slotq.sweeps.sweep",
    "choice": "slotq.sweeps.space",
    "integer": "slotq.sweeps.space",
    "log_integer": "slotq.sweeps.space",
    "log_uniform": "slotq.sweeps.space",
    "reverse_log_uniform": "slotq.sweeps.space",
    "uniform": "slotq.sweeps.space",
    "install": "slotq.session.install",
    "print_queue_state": "slotq.output.plain_table",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOME[name]), name)
    globals()[name] = found
    return found
