"""The queue in an account of this process, as in the functional tests."""

from tests.functional.conftest import account, engine, output

__all__ = ["account", "engine", "output"]  # pytest finds fixtures by their names
