"""`slotq local as NAME -- COMMAND`: another person on the emulator."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from slotq.cli.exits import ExitCode
from slotq.cli.machine.exec import NOT_FOUND
from tests.functional.local.account import Account
from tests.functional.local.conftest import SLOTQ, slotq, start

SSO = "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Lab_0a1b2c3d4e5f6071/ada@example.org"
PATH = "arn:aws:iam::123456789012:role/teams/vision/Lead"


def acts(account: Account, *words: str, **env: str) -> CompletedProcess[str]:
    return slotq("local", "as", *words, folder=account.folder, check=False, env=env)


@pytest.mark.parametrize(
    ("name", "person"),
    [
        ("Operator", "arn:aws:sts::123456789012:assumed-role/Operator"),
        (PATH, "arn:aws:sts::123456789012:assumed-role/Lead"),
        (SSO, SSO),
        (SSO.rpartition("/")[0] + "/bob", SSO.rpartition("/")[0] + "/bob"),
    ],
)
def test_the_command_runs_as_the_person(account: Account, name: str, person: str) -> None:
    """Without `slotq local env`, and whatever the shell has set for another account."""
    other = {"AWS_PROFILE": "nobody", "AWS_SESSION_TOKEN": "another", "SLOTQ_API_ID": "a1b2c3"}
    done = acts(account, name, "--", *SLOTQ, "whoami", "--json", **other)
    assert done.returncode == ExitCode.OK, done.stderr
    assert json.loads(done.stdout)["person"] == person


def test_the_exit_code_and_the_options_are_the_commands(account: Account) -> None:
    ends = acts(account, "Lab", "--", sys.executable, "-c", "raise SystemExit(7)")
    assert (ends.returncode, ends.stdout, ends.stderr) == (7, "", "")
    assert acts(account, "Lab", "--", "no-such-program").returncode == NOT_FOUND
    help_ = acts(account, "Lab", "--", *SLOTQ, "whoami", "--help")
    assert "Usage: slotq whoami" in help_.stdout.replace("-c whoami", "slotq whoami")


def test_it_sees_the_emulator_alone_as_env_does(account: Account) -> None:
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    seen = json.loads(acts(account, "Lab", "--", sys.executable, "-c", program).stdout)
    keys = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    assert {name: seen[name] for name in account.variables.keys() - keys} == {
        name: value for name, value in account.variables.items() if name not in keys
    }
    assert all(seen[key] != account.variables[key] for key in keys)
    assert seen["AWS_SESSION_TOKEN"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("two words", "'two words' is no role"),
        ("", "'' is no role"),
        ("arn:aws:iam::123456789012:user/ada", "is no role: give its name"),
        ("arn:aws:iam::210987654321:role/Lab", "the emulator's is 123456789012"),
        (SSO.rpartition("/")[0] + "/a", "is no role"),
    ],
)
def test_a_name_that_is_no_role_is_an_error(account: Account, name: str, said: str) -> None:
    done = acts(account, name, "--", sys.executable, "-c", "print('ran')")
    assert (done.returncode, done.stdout) == (ExitCode.NO, "")
    assert done.stderr.startswith("slotq: ")
    assert said in done.stderr


def test_without_a_command_it_says_how(account: Account) -> None:
    done = acts(account, "Operator")
    assert done.returncode == ExitCode.USAGE
    assert "slotq local as Operator -- slotq whoami" in done.stderr


def test_a_user_whose_name_is_no_sessions_name_is_a_person_too(account: Account) -> None:
    odd = dict.fromkeys(("LOGNAME", "USER", "LNAME", "USERNAME"), "two words")
    shown = acts(account, "Lab", "--", *SLOTQ, "whoami", "--json", **odd)
    assert json.loads(shown.stdout)["caller"].endswith("assumed-role/Lab/testing"), shown.stderr


def test_the_emulator_needs_no_profile_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no profile of that name is on this machine. Either variable alone would be read."""
    for variable in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.setenv(variable, "nobody")
    account = start(tmp_path)
    try:
        said = acts(account, "Lab", "--", *SLOTQ, "whoami", "--json").stdout
        assert json.loads(said)["person"].endswith(":assumed-role/Lab")
    finally:
        slotq("local", "stop", folder=tmp_path)
