"""What Airflow reads about this provider, by the entry point `apache_airflow_provider`."""

from __future__ import annotations

from typing import Any

_SLOTQ = "SlotQ"


def get_provider_info() -> dict[str, Any]:
    """The provider in the form of Airflow's `provider_info.schema.json`."""
    return {
        "package-name": "slotq",
        "name": _SLOTQ,
        "description": "A priority queue in front of Amazon SageMaker training.",
        "integrations": [{"integration-name": _SLOTQ, "tags": ["aws"]}],
        **{
            kind: [{"integration-name": _SLOTQ, "python-modules": [f"slotq.airflow.{kind}"]}]
            for kind in ("operators", "sensors", "triggers", "hooks")
        },
    }
