"""layers/core/build_layer.py as a module, because it is a program outside the package."""

import importlib.util
from pathlib import Path

_FILE = Path(__file__).parents[2] / "layers" / "core" / "build_layer.py"
_spec = importlib.util.spec_from_file_location("build_layer", _FILE)
assert _spec is not None and _spec.loader is not None
build_layer = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(build_layer)
