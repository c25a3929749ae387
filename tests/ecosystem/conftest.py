"""The emulator, and the environments that `make ecosystem` has set up."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import aws
from tests.ecosystem.airflow_runs import Airflow, python

__all__ = ["aws"]


@pytest.fixture(scope="module", params=["airflow", "airflow2"])
def airflow(request, aws, tmp_path_factory):
    """Airflow 3, and Airflow 2."""
    if not python(request.param).exists():
        pytest.fail(f"there is no environment {request.param}: make ecosystem")
    return Airflow(request.param, tmp_path_factory.mktemp(request.param), aws)
