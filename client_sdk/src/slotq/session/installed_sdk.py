"""QueueTrainingJobSession for the installed SageMaker SDK: version 2 or 3.

Both versions are one distribution, so at most one is installed. The SDK is imported only when
`QueueTrainingJobSession` is first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from slotq.installation import install_command

__all__ = ["QueueTrainingJobSession", "sdk_version"]

if TYPE_CHECKING:
    from slotq.session.sdk2 import QueueTrainingJobSession


def sdk_version() -> int:
    """The major version of the installed SDK: 2 or 3. Raises ImportError without an SDK."""
    for version, module in ((3, "sagemaker.core.helper.session_helper"), (2, "sagemaker.session")):
        try:
            if find_spec(module) is not None:
                return version
        except ImportError:
            continue
    raise ImportError(_missing())


def _missing() -> str:
    return (
        "QueueTrainingJobSession needs the SageMaker Python SDK. To install its version 2 "
        f"(estimators): {install_command('sagemaker2')}; its version 3 (ModelTrainer): "
        f"{install_command('sagemaker3')}. Without it, use slotq.install(boto_session)."
    )


def __getattr__(name: str) -> Any:
    if name != "QueueTrainingJobSession":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    version = sdk_version()
    try:
        return import_module(f"slotq.session.sdk{version}").QueueTrainingJobSession
    except ImportError as error:
        raise ImportError(f"{_missing()} The import of version {version} said: {error}") from error
