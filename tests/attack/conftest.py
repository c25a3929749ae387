"""The queue in an account of this process, as the functional tests have it."""

from tests.functional.conftest import account, output

__all__ = ["account", "output"]  # pytest finds fixtures by their name
