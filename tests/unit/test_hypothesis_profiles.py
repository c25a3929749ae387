"""One Hypothesis profile for every folder of tests, without a bound on time."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import hypothesis_profiles

TESTS = Path(__file__).parents[1]
PROFILES = Path(hypothesis_profiles.__file__)


@pytest.mark.skipif("HYPOTHESIS_PROFILE" in os.environ, reason="another profile is asked for")
def test_the_same_examples_are_tried_in_each_run():
    assert settings.default.derandomize


def test_no_example_has_a_deadline():
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check


def test_no_test_overrides_the_profile():
    """What a test may set is the number of examples, and that it shares fixtures between them."""
    paths = sorted(TESTS.rglob("*.py"))
    calls = [call for path in paths for call in settings_in(path) if path != PROFILES]
    assert len(calls) > 3
    for call in calls:
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        assert given.keys() <= {"max_examples", "suppress_health_check"}, ast.unparse(call)
        assert given.get("suppress_health_check", "SHARES_FIXTURES") == "SHARES_FIXTURES"


def settings_in(path: Path) -> list[ast.Call]:
    """The calls of Hypothesis' settings in a file."""
    text = path.read_text()
    if "from hypothesis import" not in text:
        return []
    calls = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call)]
    return [call for call in calls if ast.unparse(call.func).split(".")[-1] == "settings"]
