"""`import hfai` for scripts written for HFAI's platform, by `slotq_training.hfai`.

Lies beside slotq_training.py in a job's code. An `hfai` that the image has takes its place.
"""

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any, Optional


def _installed() -> Optional[ModuleSpec]:
    """Another module of this name, at any place of the path; None: no such module."""
    here = os.path.dirname(os.path.realpath(__file__))
    rest = [place for place in sys.path if os.path.realpath(place or os.curdir) != here]
    for finder in sys.meta_path:
        look = PathFinder.find_spec if finder is PathFinder else finder.find_spec
        spec = look(__name__, rest if finder is PathFinder else None)
        if spec is not None and spec.loader is not None:
            return spec
    return None


def _take_the_names() -> None:
    import slotq_training

    for name, words in vars(slotq_training.hfai).items():
        part = ModuleType(__name__ + "." + name, "slotq_training's words for hfai." + name)
        part.__dict__.update(vars(words), __getattr__=_words(part.__name__, words))
        sys.modules[part.__name__] = part
        globals()[name] = part


def _words(module: str, words: Any) -> Any:
    """What looks up a name that the module itself does not have."""

    def look_up(name: str) -> Any:
        if name.startswith("__"):  # Python asks for some: `from hfai.client import …`.
            raise AttributeError(name)
        try:
            return getattr(words, name)
        except AttributeError:
            raise AttributeError(
                module + "." + name + " is not among the names that SlotQ knows of hfai; "
                "see docs/suspendable.md"
            ) from None

    return look_up


_found = _installed()
if _found is None:
    __path__: "list[str]" = []  # A package: `import hfai.client` works, too.
    _take_the_names()
else:
    _module = module_from_spec(_found)
    sys.modules[__name__] = _module  # What the import returns.
    assert _found.loader is not None
    _found.loader.exec_module(_module)
