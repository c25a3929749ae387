"""Whatever a script writes as its report: nothing raises, and what is shown stays within bounds."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from slotq_core.adapters.scripts import report_in
from slotq_core.model.attempts import Attempt
from slotq_core.model.reports import LONGEST_ETA, LONGEST_TEXT, MOST_METRICS, MOST_STEPS
from slotq_core.policy.lifecycle.stall import heard
from slotq_core.wire.views.jobs import progress_view
from tests.unit.policy.test_reasons import NOW, pool, runs

BEGAN = NOW - 500_000
ATTEMPT = Attempt(
    number=1, training_job="job", token="t", pool="p", instance_type="t", admitted_at=BEGAN
)
numbers = st.integers() | st.integers(BEGAN, NOW) | st.floats() | st.just(10**400)
scalars = st.none() | st.booleans() | numbers | st.text(max_size=100)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
parts = anything | st.fixed_dictionaries(
    {},
    optional={
        "step": anything,
        "at": numbers,
        "seconds": anything,
        "via": st.just("marker") | anything,
        "acknowledged_at": anything,
        "released_at": anything,
    },
)
documents = st.fixed_dictionaries(
    {"version": st.just(1), "training_job": st.just("job")},
    optional={
        "step": numbers,
        "of": anything,
        "reported_at": numbers,
        "first": parts,
        "checkpoint": parts,
        "suspend": parts,
        "metrics": st.dictionaries(st.text(max_size=100), anything, max_size=30) | anything,
    },
)


def _within(moment: int | None) -> bool:
    return moment is None or BEGAN <= moment <= NOW


@given(documents)
def test_a_report_stays_within_its_bounds(document):
    report = report_in(json.dumps(document).encode(), ATTEMPT, latest=NOW)
    assert report is not None
    for step in (report.step, report.of, report.began_step):
        assert step is None or 0 <= step <= MOST_STEPS
    assert all(map(_within, (report.at, report.began_at, report.alive_at)))
    assert len(report.metrics) <= MOST_METRICS
    assert all(name.isprintable() and len(name) <= LONGEST_TEXT for name in report.metrics)
    eta = report.eta(NOW)
    assert eta is None or 0 <= eta <= LONGEST_ETA
    shown = progress_view(report, eta).model_dump_json()
    assert shown.isprintable() and json.loads(shown)
    heard(runs("job"), pool(stall_after=60_000), report, NOW)


@given(st.binary(max_size=200) | anything.map(lambda it: json.dumps(it).encode()))
def test_no_bytes_raise(content):
    report_in(content, ATTEMPT, latest=NOW)
