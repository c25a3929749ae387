"""Sources of the settings, and messages about wrong ones."""

from __future__ import annotations

import pytest

from slotq.configuration.settings import load
from slotq.errors import NotConfigured

URL = "https://abc.execute-api.eu-west-1.amazonaws.com/prod"


@pytest.fixture
def env(tmp_path):
    return {"HOME": str(tmp_path)}


def write(tmp_path, text):
    path = tmp_path / ".config" / "slotq" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_arguments_override_the_environment_and_the_file(tmp_path, env):
    path = write(tmp_path, 'endpoint = "https://file.test"\nregion = "file"\npriority = 3\n')
    env |= {"SLOTQ_ENDPOINT": "https://env.test", "SLOTQ_REGION": "env"}
    config = load({"endpoint": "https://argument.test", "region": None}, environ=env)
    assert (config.endpoint, config.region, config.priority) == ("https://argument.test", "env", 3)
    assert config.source("endpoint") == "argument"
    assert config.source("region") == "SLOTQ_REGION"
    assert config.source("priority") == str(path)
    assert config.source("api_id") == "not set"


def test_a_missing_file_and_an_empty_variable_are_ignored(env):
    config = load(environ=env | {"SLOTQ_ENDPOINT": "", "SLOTQ_CONFIG": ""})
    assert config.endpoint is None


def test_the_file_is_found_by_xdg_or_by_name(tmp_path, env):
    (tmp_path / "x" / "slotq").mkdir(parents=True)
    (tmp_path / "x" / "slotq" / "config.toml").write_text('api_id = "xdg"')
    (tmp_path / "own.toml").write_text('api_id = "own"')
    env["XDG_CONFIG_HOME"] = str(tmp_path / "x")
    assert load(environ=env).api_id == "xdg"
    assert load(environ=env | {"SLOTQ_CONFIG": str(tmp_path / "own.toml")}).api_id == "own"


def test_a_user_without_a_home_has_no_file(env):
    """As in a container whose user is a bare number."""
    nowhere = {"XDG_CONFIG_HOME": "~no-such-user"}
    assert load({"endpoint": URL}, environ=nowhere).endpoint == URL
    with pytest.raises(NotConfigured, match=r"~no-such-user/c\.toml, which does not exist"):
        load(environ={"SLOTQ_CONFIG": "~no-such-user/c.toml"})


def test_a_missing_endpoint_is_an_error_that_says_how_to_set_one(env):
    with pytest.raises(NotConfigured, match=r"(?s)SLOTQ_ENDPOINT.*config\.toml.*slotq local start"):
        load(environ=env).required_endpoint()


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"SLOTQ_ENDPOINT": "queue.test/prod"}, "endpoint .from SLOTQ_ENDPOINT. must be a URL"),
        ({"SLOTQ_ENDPOINT": "ftp://queue.test"}, "must be a URL"),
        ({"SLOTQ_ENDPOINT": "https://queue.test:x/"}, "must be a URL"),
        ({"SLOTQ_ENDPOINT": "https://queue.test/?a=b"}, "must be a URL"),
        ({"SLOTQ_PRIORITY": "1.5"}, "priority .from SLOTQ_PRIORITY. must be .* an integer"),
        ({"SLOTQ_PRIORITY": "1000001"}, "to 1,000,000"),
        (
            {"SLOTQ_CONFIG": "/nowhere/config.toml"},
            "names /nowhere/config.toml, which does not exist",
        ),
    ],
)
def test_a_wrong_variable_is_named(env, variables, said):
    with pytest.raises(NotConfigured, match=said):
        load(environ=env | variables)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("endpoint = ", "cannot be read as TOML"),
        ('endpint = "x"', "no setting 'endpint'; the settings are endpoint, api_id"),
        ("endpoint = 5", "endpoint .from .*config.toml. must be a text, not 5"),
        ("priority = true", "must be .* an integer"),
        ("priority = 1.5", "must be .* an integer"),
    ],
)
def test_a_wrong_file_is_named_in_the_error(tmp_path, env, text, said):
    write(tmp_path, text)
    with pytest.raises(NotConfigured, match=said):
        load(environ=env)


def test_a_vpc_endpoint_needs_the_api_id(env):
    url = "https://vpce-0abc-xyz.execute-api.eu-west-1.vpce.amazonaws.com/prod/"
    with pytest.raises(NotConfigured, match="SLOTQ_API_ID"):
        load({"endpoint": url}, environ=env)
    config = load({"endpoint": url, "api_id": "a1b2"}, environ=env)
    assert config.endpoint == url.rstrip("/")
    assert config.signing_region() == "eu-west-1"


def test_the_region_defaults_to_the_endpoints(env):
    assert load({"endpoint": URL}, environ=env).signing_region() == "eu-west-1"
    assert load({"endpoint": URL, "region": "us-east-1"}, environ=env).signing_region() == (
        "us-east-1"
    )
    assert load({"endpoint": "https://queue.test"}, environ=env).signing_region() is None


PROFILES = """
endpoint = "https://shared.test"
api_id = "shared"
priority = 3

[profiles.night]
queue = "night"
priority = -5

[profiles.other]
endpoint = "https://other.test"
"""


def test_a_profile_overrides_the_files_top_level(tmp_path, env):
    path = write(tmp_path, PROFILES)
    night = load({"profile": "night"}, environ=env)
    assert (night.queue, night.endpoint, night.api_id) == ("night", None, None)
    assert (night.priority, night.source("priority")) == (-5, f"{path} [profiles.night]")
    other = load(environ=env | {"SLOTQ_PROFILE": "other"})
    assert (other.endpoint, other.api_id, other.priority) == ("https://other.test", "shared", 3)
    assert load(environ=env).profile is None


def test_the_file_can_name_the_profile(tmp_path, env):
    write(tmp_path, 'profile = "night"\n' + PROFILES)
    assert load(environ=env).priority == -5
    assert load(environ=env | {"SLOTQ_PROFILE": "other"}).priority == 3


def test_a_profile_on_the_command_line_overrides_the_environment(tmp_path, env):
    write(tmp_path, PROFILES)
    env |= {"SLOTQ_ENDPOINT": "https://env.test", "SLOTQ_PRIORITY": "1"}
    night = load({"profile": "night"}, environ=env)
    assert (night.queue, night.endpoint, night.priority) == ("night", None, -5)
    night = load(environ=env | {"SLOTQ_PROFILE": "night"})
    assert (night.endpoint, night.priority) == ("https://env.test", 1)


def test_a_named_queue_overrides_an_endpoint_of_a_weaker_source(tmp_path, env):
    write(tmp_path, 'endpoint = "https://file.test"\n')
    assert load(environ=env | {"SLOTQ_QUEUE": "research"}).endpoint is None
    write_again = load({"endpoint": "https://own.test"}, environ=env | {"SLOTQ_QUEUE": "research"})
    assert write_again.endpoint == "https://own.test"


@pytest.mark.parametrize(
    ("text", "profile", "said"),
    [
        (PROFILES, "day", r"no profile 'day' in .*; the profiles are night, other.*aws_profile"),
        ("priority = 1", "day", "it has none"),
        ("[profiles.day]\nendpint = 1", "day", r"\[profiles.day\]: there is no setting 'endpint'"),
        ("[profiles.day]\npriority = '-x'", "day", r"priority .from .*\[profiles.day\]. must be"),
        ('[profiles.day]\nprofile = "night"', "day", "cannot name a profile"),
        ("profiles = 1", "day", "must hold tables"),
    ],
)
def test_a_wrong_profile_is_named(tmp_path, env, text, profile, said):
    write(tmp_path, text)
    with pytest.raises(NotConfigured, match=said):
        load({"profile": profile}, environ=env)
