"""Sets MASTER_IP, MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK where SageMaker runs a script.

Script mode puts the code's folder on PYTHONPATH, so each Python of the job imports this file at its
start: the variables are there before the script's first line. They count nodes, as
`slotq_training.distributed_env` does. A variable that is set stays; below a launcher, which gives
each process its own, nothing is set.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_LAUNCHED = ("LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""Variables of processes that torchrun or MPI has started."""


def _set_variables() -> None:
    if any(name in os.environ for name in _LAUNCHED):
        return
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ and "MASTER_IP" in os.environ:
        return  # By a parent: nothing to read again.
    try:
        import slotq_training

        slotq_training.distributed_env(export=True)
    except Exception as error:  # noqa: BLE001 - no job fails for want of them
        sys.stderr.write(f"slotq: MASTER_IP and RANK are not set: {error!r}\n")


def _run_the_images_own() -> None:
    here = os.path.dirname(os.path.realpath(__file__))
    rest = [place for place in sys.path if os.path.realpath(place or os.curdir) != here]
    found = PathFinder.find_spec(__name__, rest)
    if found is not None and found.loader is not None:
        module = module_from_spec(found)
        sys.modules[__name__] = module
        found.loader.exec_module(module)


_set_variables()
_run_the_images_own()
