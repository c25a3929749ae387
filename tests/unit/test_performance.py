"""docs/performance.md shows what benchmarks/results.json holds."""

from __future__ import annotations

import json
import re

import pytest

from benchmarks import page, plots, results
from benchmarks.promises import PROMISES

KEPT = results.read()


def test_the_page_shows_the_results():
    text = page.PAGE.read_text()
    assert text == page.filled(text, KEPT), "run python -m benchmarks.page"


def test_the_page_has_every_table():
    assert set(re.findall(r"<!-- ([a-z ]+) -->", page.PAGE.read_text())) == {*page.TABLES, "end"}


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
