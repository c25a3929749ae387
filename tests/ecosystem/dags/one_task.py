"""A DAG with the task that a test describes, and one after it that writes down what it returned.

Runs in Airflow's own environment: nothing of SlotQ's tests is here.
"""

import importlib
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.providers.common.compat.sdk import DAG, BaseOperator

WANTED = json.loads(os.environ["ECOSYSTEM_TASK"])


class WriteDown(BaseOperator):
    """Writes what the task before has returned."""

    def execute(self, context):
        found = context["ti"].xcom_pull(task_ids="fit")
        Path(os.environ["ECOSYSTEM_RESULT"]).write_text(json.dumps(found, default=str))


with DAG("train", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
    module, _, name = WANTED["operator"].rpartition(".")
    operator = getattr(importlib.import_module(module), name)
    task = operator(task_id="fit", retry_delay=timedelta(0), **WANTED["arguments"])
    task >> WriteDown(task_id="write-down")
