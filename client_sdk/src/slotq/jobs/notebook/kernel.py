"""The display of the notebook that this process serves, if any."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from slotq.jobs.rendering import Bundle

Display = Callable[[str, Bundle], Any]
"""Shows something under an id, replacing what it showed under that id."""


def display_here() -> Display | None:
    """IPython's display in a notebook's kernel, else None. Never imports IPython to find out."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    cell: Any = import_module("IPython.display")

    shown: set[str] = set()

    def show(key: str, both: Bundle) -> None:
        # Send both forms: a console attached to the same kernel cannot show HTML.
        show_in = cell.update_display if key in shown else cell.display
        show_in(both, raw=True, display_id=key)
        shown.add(key)

    return show


def show_widget(widget: object) -> None:
    """Display an ipywidgets widget. Only within a notebook's kernel."""
    cell: Any = import_module("IPython.display")
    cell.display(widget)
