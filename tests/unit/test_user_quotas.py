"""What `slotq quota` shows: classes that somebody has configured, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotq_core.admission.user_quotas import user_quotas
from slotq_core.model.sharing import NO_SHARING, Sharing
from slotq_core.wire.document.contents import read
from tests.unit.policy.test_reasons import pool, runs

POOL = {"name": "p", "capacity": 4, "instance_type": "ml.p5.48xlarge"}
CLASSES = [{"name": "GOLD", "value": 5}, {"name": "TIN", "value": 0}]


def classes_shown(sharing: Sharing, *jobs) -> list[tuple[str, int, int | None]]:
    own = [replace(job, submitter="ann", person="ann") for job in jobs]
    return [
        (each.priority_class, each.used, each.total)
        for each in user_quotas(sharing, [pool()], own, ["ann"])
    ]


def shared(**sections) -> Sharing:
    return read({"pools": [POOL], **sections}).sharing


LIMITS = {"users": [{"name": "ann", "limits": {"p": {"LOW": 3}}}]}


@pytest.mark.parametrize(
    ("sharing", "priority", "named", "expected"),
    [
        (NO_SHARING, 0, "", [("", 1, None)]),
        (NO_SHARING, 7, "", [("", 1, None)]),
        (NO_SHARING, 30, "HIGH", [("HIGH", 1, None)]),
        (shared(classes=CLASSES), 5, "GOLD", [("GOLD", 1, None)]),
        (shared(classes=CLASSES), 0, "", [("TIN", 1, None)]),
        (shared(**LIMITS), 0, "", [("LOW", 1, 3)]),
    ],
)
def test_a_number_has_a_class_only_where_one_is_configured(sharing, priority, named, expected):
    job = replace(runs("a", at="p"), priority=priority, priority_class=named)
    assert classes_shown(sharing, job) == expected
