"""`slotq configure`: questions, written files and refusals."""

from __future__ import annotations

import json
import re
import stat
import tomllib

import pytest

from slotq import __version__
from slotq.cli.app import App
from slotq.cli.exits import ExitCode
from slotq.configuration import config_file
from slotq.configuration.settings import load
from slotq.errors import NotConfigured
from tests.unit.client.fake_queue import FakeAnswer, no_connection, served

URL = "https://abc.execute-api.eu-west-1.amazonaws.com/prod"


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".config" / "slotq" / "config.toml"


def content(path):
    return tomllib.loads(path.read_text())


def test_options_are_written_and_the_queue_is_tried(slotq, path):
    result = slotq("configure", "--endpoint", URL + "/", "--priority", "10")
    assert result.exit_code == ExitCode.OK, result.output
    assert content(path) == {"endpoint": URL, "priority": 10}
    assert f"the queue answers: release {__version__}, you are arn:aws:iam::" in result.stderr
    assert load().endpoint == URL


def test_the_file_is_readable_by_its_owner_alone(slotq, path):
    slotq("configure", "--endpoint", URL)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    slotq("configure", "--region", "eu-west-1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["config.toml"]


def test_a_symbolic_link_is_kept(slotq, path, tmp_path):
    path.parent.mkdir(parents=True)
    (tmp_path / "kept.toml").write_text("priority = 1\n")
    path.symlink_to(tmp_path / "kept.toml")
    slotq("configure", "--priority", "2")
    assert path.is_symlink()
    assert content(tmp_path / "kept.toml") == {"priority": 2}


def test_other_contents_of_the_file_stay(slotq, path):
    path.parent.mkdir(parents=True)
    path.write_text(
        f'# ours\nendpoint = "{URL}"\npriority = 1  # low\n\n[profiles.night]\npriority = -5\n'
    )
    slotq("configure", "--priority", "3", "--region", "eu-west-1")
    slotq("configure", "--endpoint", "-", "--queue", "q")
    assert path.read_text() == (
        '# ours\npriority = 3\nregion = "eu-west-1"\nqueue = "q"\n\n'
        "[profiles.night]\npriority = -5\n"
    )


def test_a_profile_is_added_and_changed(slotq, path):
    slotq("configure", "--endpoint", URL)
    result = slotq("configure", "--profile", "night", "--queue", "night", "--priority", "-5")
    assert result.exit_code == ExitCode.OK, result.output
    assert "[profiles.night]" in result.stderr
    slotq("--profile", "night", "configure", "--priority", "-6", "--pool", "p5,p4")
    slotq("configure", "--profile", "day", "--priority", "6")
    assert content(path) == {
        "endpoint": URL,
        "profiles": {
            "night": {"queue": "night", "priority": -6, "pool": "p5,p4"},
            "day": {"priority": 6},
        },
    }
    night = load({"profile": "night"})
    assert (night.endpoint, night.queue, night.priority) == (None, "night", -6)
    assert (load({"profile": "day"}).endpoint, load().priority) == (URL, None)


def test_interactive_mode_asks_for_each_setting_and_return_keeps_it(slotq, path):
    slotq("configure", "--endpoint", URL, "--role", "arn:aws:iam::123456789012:role/trainer")
    answers = ["", "", "", "eu-west-1", "", "1.5", "7", "vision"]
    answers += ["ml.p5.48xlarge", "train:1", "", "p5"]
    result = slotq("configure", input="\n".join([*answers, "s3://bucket/runs/"]) + "\n")
    assert result.exit_code == ExitCode.OK, result.output
    assert "or an integer" in result.stderr, "and it was asked again"
    assert content(path) == {
        "endpoint": URL,
        "role": "arn:aws:iam::123456789012:role/trainer",
        "region": "eu-west-1",
        "priority": 7,
        "project": "vision",
        "instance_type": "ml.p5.48xlarge",
        "image": "train:1",
        "pool": "p5",
        "output": "s3://bucket/runs",
    }


def test_an_interrupt_writes_nothing(slotq, path):
    assert slotq("configure", input="myqueue\n").exit_code == ExitCode.NO
    assert not path.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--endpoint", "queue.test/prod"), "endpoint .from argument. must be a URL"),
        (("--priority", "1.5"), "or an integer"),
        (("--output", "bucket/folder"), "must be s3://bucket/folder"),
        (("--role", "trainer"), "must be the ARN of an execution role"),
        (("--instance-type", "p5.48xlarge"), "such as ml.p5.48xlarge"),
        (
            ("--endpoint", "https://vpce-0abc-xyz.execute-api.eu-west-1.vpce.amazonaws.com/prod"),
            "api",
        ),
        (("--profile", "a.b", "--priority", "1"), "cannot be a profile's name"),
    ],
)
def test_a_wrong_setting_is_not_written(slotq, path, words, said):
    result = slotq("configure", *words)
    assert result.exit_code == ExitCode.USAGE
    assert re.search(said, result.stderr)
    assert not path.exists()


def test_a_file_that_is_not_toml_is_left_alone(slotq, path):
    path.parent.mkdir(parents=True)
    path.write_text("endpoint = ")
    result = slotq("configure", "--priority", "1")
    assert (result.exit_code, "cannot be read as TOML" in result.stderr) == (ExitCode.USAGE, True)
    assert path.read_text() == "endpoint = "


@pytest.mark.parametrize(
    "text",
    ["profiles.night.priority = 1\n", "[profiles]\nnight = {priority = 1}\n"],
)
def test_a_file_in_an_unusual_notation_is_left_alone(tmp_path, text):
    with pytest.raises(NotConfigured, match=r"edit it by hand|cannot be read"):
        config_file.changed(tmp_path / "c.toml", text, {"priority": 2}, profile="night")


def test_a_read_only_folder_is_reported(slotq, tmp_path):
    (tmp_path / ".config").write_text("a file")
    result = slotq("configure", "--priority", "1")
    assert (result.exit_code, "cannot be written" in result.stderr) == (ExitCode.USAGE, True)


@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        (no_connection(), ExitCode.UNREACHABLE),
        (FakeAnswer(403, '{"message": "Forbidden"}'), ExitCode.NOT_ALLOWED),
    ],
)
def test_the_file_stays_when_the_queue_does_not_answer(slotq, http, path, trouble, code):
    http.troubles = [trouble] * 5
    result = slotq("configure", "--endpoint", URL)
    assert result.exit_code == code
    assert (
        "The settings are saved, but the queue does not answer yet: `slotq doctor`" in result.stderr
    )
    assert content(path) == {"endpoint": URL}
    http.troubles = [trouble] * 5
    assert slotq("configure", "--endpoint", URL, "--no-check").exit_code == ExitCode.OK


def test_a_variable_that_overrides_the_file_is_reported(slotq, monkeypatch):
    monkeypatch.setenv("SLOTQ_PRIORITY", "3")
    assert "SLOTQ_PRIORITY is set and overrides" in slotq("configure", "--priority", "4").stderr


def test_the_list_shows_the_source_of_each_setting(slotq, monkeypatch, path):
    slotq("configure", "--endpoint", URL, "--profile", "night", "--priority", "1")
    monkeypatch.setenv("SLOTQ_REGION", "eu-west-1")
    result = slotq("--profile", "night", "configure", "--list")
    lines = {line.split()[0]: line.split()[1:] for line in result.output.splitlines()}
    assert lines["priority"] == ["1", str(path), "[profiles.night]"]
    assert lines["region"] == ["eu-west-1", "SLOTQ_REGION"]
    assert lines["api_id"] == ["not", "set"]
    said = json.loads(slotq("--profile", "night", "configure", "--list", "--json").output)
    assert said["file"] == str(path)
    assert {"name": "priority", "value": 1, "source": f"{path} [profiles.night]"} in said[
        "settings"
    ]


def test_the_connection_test_uses_the_new_settings(queue, slotq, path):
    with served(queue) as endpoint:
        result = slotq("configure", "--endpoint", endpoint, world={"connect": None})
    assert (result.exit_code, "the queue answers" in result.stderr) == (ExitCode.OK, True)
    assert isinstance(App().config().endpoint, str)
