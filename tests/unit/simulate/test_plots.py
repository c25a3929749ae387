"""Plots of runs: every run can be drawn, and the pictures have their texts."""

from __future__ import annotations

import re
import struct
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from slotq.cli.machine.simulate_command import PICTURES
from slotq.cli.main import cli
from slotq.simulate import simulate
from slotq.simulate.plot import KINDS, save
from slotq.simulate.plot.panels import MOST_ROWS
from slotq.simulate.plot.scales import OTHERS, Palette, duration, grid, levels
from slotq.simulate.scenario.scenario import Scenario

PNG = b"\x89PNG\r\n\x1a\n"


def picture(tmp_path, world: dict) -> str:
    scenario = Scenario.model_validate(world)
    path = tmp_path / "run.html"
    save(path, scenario, simulate(scenario), title="a <run> of $p$ & q")
    return path.read_text()


def texts(page: str) -> set[str]:
    return {text.strip() for text in re.findall(r"<text[^>]*>([^<]*)</text>", page)}


def jobs(count: int, **fields) -> list[dict]:
    return [{"name": f"j{n}", "submit_at": n, "runtime": 5, **fields} for n in range(count)]


WORLD = {
    "pools": [
        {
            "name": "p",
            "capacity": 3,
            "foreign": 1,
            "stop_seconds": 5,
            "changes": [{"at": 20, "foreign": 0}, {"at": 60, "state": "paused"}],
        },
        {"name": "q", "capacity": 1, "state": "drained"},
    ],
    "projects": [{"name": "nlp", "quota": 1}, {"name": "$x$ & y", "quota": 1}],
    "jobs": [
        {"name": "old", "project": "nlp", "running_since": -10, "pool": "p", "runtime": 90},
        {"name": "low", "project": "nlp", "submit_at": 0, "runtime": 50},
        {"name": "high", "project": "nlp", "submit_at": 5, "priority": 1, "runtime": 20},
        {"name": "other", "project": "$x$ & y", "submit_at": 6, "runtime": 20},
        {"name": "huge", "project": "nlp", "submit_at": 7, "slots": 9},
        {"name": "late", "project": "nlp", "submit_at": 70},
    ],
    "until": 100,
}


def test_a_plot_has_its_labels(tmp_path):
    page = picture(tmp_path, WORLD)
    said = texts(page)
    assert {"pool p", "pool q", "paused", "drained", "refused", "seconds"} <= said
    assert {"old", "low", "high", "late"} <= said
    assert {"project nlp", "project $x$ &amp; y", "capacity", "foreign use"} <= said
    assert "<title>a &lt;run&gt; of $p$ &amp; q</title>" in page
    assert not re.search(r"""(src|href)=["'](?!#)""", page), "it needs nothing but itself"


def test_a_bar_names_its_attempts_pool(tmp_path):
    pools = [{"name": "p", "capacity": 3}, {"name": "q", "capacity": 3}]
    alone = {"name": "alone", "submit_at": 0, "pools": ["q"], "runtime": 9}
    parts = {"name": "parts", "submit_at": 0, "parts": {"p": 1, "q": 2}, "runtime": 9}
    said = texts(picture(tmp_path, {"pools": pools, "jobs": [alone, parts]}))
    assert {"q", "p+q"} <= said


def test_the_same_run_gives_the_same_plot(tmp_path):
    assert picture(tmp_path, WORLD) == picture(tmp_path, WORLD)


def test_a_plot_can_be_a_png(tmp_path):
    scenario = Scenario.model_validate(WORLD)
    path = tmp_path / "run.png"
    save(path, scenario, simulate(scenario), title="run")
    data = path.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    assert data.startswith(PNG)
    assert width == 1800
    assert height > 600


@pytest.mark.parametrize(
    "world",
    [
        {"pools": [{"name": "p", "capacity": 1}]},
        {"pools": [{"name": "p", "capacity": 1}], "jobs": jobs(1, slots=5)},
        {"pools": [{"name": "p", "capacity": 1}], "jobs": jobs(MOST_ROWS + 1, slots=5)},
    ],
    ids=["nothing", "one that is refused", "many that are refused"],
)
def test_an_empty_run_can_be_drawn(tmp_path, world):
    assert "pool p" in texts(picture(tmp_path, world))


def test_a_bounded_number_of_jobs_has_rows_and_more_are_counted(tmp_path):
    pools = [{"name": "p", "capacity": 4}]
    few = texts(picture(tmp_path, {"pools": pools, "jobs": jobs(MOST_ROWS)}))
    many = texts(picture(tmp_path, {"pools": pools, "jobs": jobs(MOST_ROWS + 1)}))
    assert {"j0", f"j{MOST_ROWS - 1}"} <= few
    assert "j0" not in many
    assert any(
        f"waiting jobs, of {MOST_ROWS + 1}" in text and f"up to {MOST_ROWS} jobs" in text
        for text in many
    )


def test_a_long_run_is_drawn_as_means_and_says_so(tmp_path):
    pools = [{"name": "p", "capacity": 2}]
    page = picture(tmp_path, {"pools": pools, "jobs": jobs(700)})
    assert any("means over" in text for text in texts(page))
    assert len(page) < 400_000


def test_means_keep_the_area():
    """The area below a curve is the use, exact or averaged."""
    steps = [(t, 1) for t in range(0, 9000, 7)] + [(t + 500, -1) for t in range(0, 9000, 7)]
    edges, seconds = grid(10_000, [steps])
    assert seconds
    area = float(np.sum(levels(steps, edges) * np.diff(edges)))
    assert area == pytest.approx(500 * len(range(0, 9000, 7)))


def test_few_changes_are_drawn_exactly():
    edges, seconds = grid(50, [[(10, 2), (30, -1)]])
    assert not seconds
    assert list(edges) == [0, 10, 30, 50]
    assert list(levels([(10, 2), (30, -1)], edges)) == [0, 2, 1]


def test_the_number_of_colours_is_bounded():
    names = [f"p{n}" for n in range(15)]
    scenario = Scenario.model_validate(
        {
            "pools": [{"name": "p", "capacity": 99}],
            "projects": [{"name": name} for name in names],
            "jobs": [
                {"name": name, "project": name, "submit_at": 0, "runtime": n + 1}
                for n, name in enumerate(names)
            ],
        }
    )
    palette = Palette(scenario, simulate(scenario), 20_000)
    assert palette.groups[0] == "p14"
    assert palette.groups[-1] == OTHERS
    assert len({palette.colour(group) for group in palette.groups}) == len(palette.groups) == 10
    assert palette.group(scenario.jobs[0]) == OTHERS


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 seconds"),
        (59.94, "59.9 seconds"),
        (900, "15 minutes"),
        (9000, "2.5 hours"),
        (864_000, "10 days"),
    ],
)
def test_durations_are_formatted(seconds, text):
    assert duration(seconds) == text


def test_the_command_draws_each_kind_of_plot(tmp_path):
    (tmp_path / "s.yaml").write_text("pools: [{name: p, capacity: 1}]")
    target = tmp_path / "run.png"
    result = CliRunner().invoke(cli, ["simulate", str(tmp_path / "s.yaml"), "--plot", str(target)])
    assert result.exit_code == 0
    assert target.read_bytes().startswith(PNG)
    assert PICTURES == KINDS


def test_an_unknown_kind_is_refused_before_anything_is_read():
    result = CliRunner().invoke(cli, ["simulate", "none.yaml", "--plot", "run.pdf"])
    assert result.exit_code == 2
    assert "give a name that ends in .html or .png" in result.stderr


def test_an_unwritable_file_is_an_error(tmp_path):
    (tmp_path / "s.yaml").write_text("pools: [{name: p, capacity: 1}]")
    target = tmp_path / "none" / "run.png"
    result = CliRunner().invoke(cli, ["simulate", str(tmp_path / "s.yaml"), "--plot", str(target)])
    assert result.exit_code == 2
    assert "No such file or directory" in result.stderr


def test_missing_matplotlib_is_an_error_that_says_what_to_install(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("slotq.simulate.plot")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    (tmp_path / "s.yaml").write_text("pools: [{name: p, capacity: 1}]")
    target = tmp_path / "run.png"
    result = CliRunner().invoke(cli, ["simulate", str(tmp_path / "s.yaml"), "--plot", str(target)])
    assert result.exit_code == 2
    assert "client_sdk[plot]" in result.stderr
