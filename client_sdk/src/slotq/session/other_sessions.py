"""What is not the session that was hooked: copies of it, later default sessions, other processes.

A `QueueTrainingJobSession` has a copy of the user's boto3 session, whose clients know the queue;
the user's own stays unchanged. `slotq.install` without a session hooks boto3's default session, and
each later one that `boto3.setup_default_session` makes.

A forked process has the hooks of its parent. A process that multiprocessing spawns begins without
them, and the parent says so, once.
"""

from __future__ import annotations

import copy
import multiprocessing.spawn
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import unwrap
from typing import Any

import boto3

HookSession = Callable[[Any], None]
"""Hooks a boto3 session."""

SPAWNED = (
    "the processes that multiprocessing spawns begin without the queue: their training jobs go to "
    "SageMaker, unless they call slotq.install() themselves"
)
_KEPT = "slotq_kept"
"""The attribute of a wrapped function that holds what the wrapper needs."""


def copy_of(boto_session: Any, hooks: Mapping[str, Callable[[Any], None]]) -> Any:
    """A copy of a boto3 session. `hooks` receive the events of each client, by its service."""
    own = copy.copy(boto_session)
    make = unwrap(boto_session.client)  # The boto session may itself be such a copy.

    @wraps(make)
    def client(service_name: str, *args: Any, **kwargs: Any) -> Any:
        made = make(service_name, *args, **kwargs)
        if service_name in hooks:
            hooks[service_name](made.meta.events)
        return made

    own.client = client
    return own


def hook_later_defaults(queue: str, hook: HookSession) -> None:
    """Hook each default session that boto3 makes from now on. A further call for the same queue
    replaces the hook."""
    before: dict[str, HookSession] = getattr(boto3.setup_default_session, _KEPT, {})
    hooks = {**before, queue: hook}
    set_up = unwrap(boto3.setup_default_session)

    @wraps(set_up)
    def set_up_and_hook(**settings: Any) -> None:
        set_up(**settings)
        for hook_session in hooks.values():
            hook_session(boto3.DEFAULT_SESSION)

    setattr(set_up_and_hook, _KEPT, hooks)
    boto3.setup_default_session = set_up_and_hook


def report_spawned_processes(say: Callable[[str], object]) -> None:
    """Say, once, that spawned processes go past the queue, when multiprocessing spawns the first.
    A further call replaces `say`."""
    prepare = unwrap(multiprocessing.spawn.get_preparation_data)
    unsaid = [say]

    @wraps(prepare)
    def prepare_and_report(name: str) -> dict[str, Any]:
        if unsaid:
            unsaid.pop()(SPAWNED)
        data: dict[str, Any] = prepare(name)
        return data

    multiprocessing.spawn.get_preparation_data = prepare_and_report
