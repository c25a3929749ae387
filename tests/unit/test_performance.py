"""docs/performance.md and other pages show what benchmarks/results.json holds."""

from __future__ import annotations

import json
import re

import pytest

from benchmarks import cold_start, page, plans, plots, results
from benchmarks.measure import counted_calls
from benchmarks.promises import PROMISES

KEPT = results.read()


@pytest.mark.parametrize("path", page.PAGES, ids=lambda path: path.name)
def test_the_pages_show_the_results(path):
    text = path.read_text()
    assert text == page.filled(text, KEPT), "run python -m benchmarks.page"


def test_every_table_stands_on_a_page():
    written = "".join(path.read_text() for path in page.PAGES)
    assert set(re.findall(r"<!-- ([a-z ]+) -->", written)) == {*page.TABLES, "end"}


def test_the_plots_show_the_results():
    drawn = re.search(r"<dc:description>(.*?)</dc:description>", plots.FILE.read_text(), re.DOTALL)
    assert drawn, "the plots say what they show"
    points = json.loads(drawn[1].replace("&quot;", '"').replace("&gt;", ">"))
    assert points == json.loads(json.dumps(plots.points(KEPT)))


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.what)
def test_every_promise_is_measured(promise):
    """A renamed figure would leave its promise unchecked."""
    (*_, last) = results.measured(KEPT, promise.figure[0]).values()
    assert promise.value(last) is not None


def test_results_name_no_machine_and_no_path():
    text = results.FILE.read_text()
    assert not re.search(r'"[^"]*(/|\\\\|localhost|127\.0)[^"]*"', text)


def plan_figures(small: int, large: int, projects: int) -> plans.Figures:
    """Figures of plans whose CPU time is beyond all measure."""
    calls = {"plan 1000": small, "plan 10000": large, "plan, 1,000 projects": projects}
    return {name: {"calls": number, "cpu_seconds": 1e9} for name, number in calls.items()}


def test_only_calls_of_a_plan_have_bounds():
    assert plans.beyond(plan_figures(1_000, 11_000, 20_000)) == []
    assert len(plans.beyond(plan_figures(1_000, 100_000, 100_000))) == 1, "quadratic"
    assert len(plans.beyond(plan_figures(1_000, 10_000, 30_000))) == 1, "by projects"


def test_only_counts_of_a_cold_start_have_bounds():
    within = {
        kind: {"cpu_ms": 1e9, "ratio": 1e9, "modules": most.modules, "read": most.read}
        for kind, most in cold_start.MOST.items()
    }
    assert cold_start.beyond(within) == []
    for kind, figures in within.items():
        for more in ({"modules": figures["modules"] + 1}, {"read": figures["read"] + 0.001}):
            assert len(cold_start.beyond({**within, kind: {**figures, **more}})) == 1


def test_calls_are_counted_with_pythons_own():
    def inner() -> int:
        return len("")

    assert counted_calls(lambda: [inner() for _ in range(5)]) - counted_calls(lambda: None) >= 10
    assert counted_calls(inner) == counted_calls(inner)
