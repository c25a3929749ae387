"""The queue in an account of this process, as in the functional tests."""

from tests.functional.conftest import account, output

__all__ = ["account", "output"]  # pytest finds fixtures by their names
