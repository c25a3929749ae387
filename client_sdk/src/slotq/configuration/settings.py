"""The user's settings: from arguments, else the environment, else the config file.

    argument          environment          ~/.config/slotq/config.toml
    endpoint=         SLOTQ_ENDPOINT       endpoint = "https://<id>.execute-api.<region>.amazonaws.com/prod"
                      SLOTQ_QUEUE          queue = "slotq"         (found by transport/discovery.py)
    api_id=           SLOTQ_API_ID         api_id = "a1b2c3d4e5"      (with a vpce-… endpoint)
    region=           SLOTQ_REGION         region = "eu-west-1"       (default: the endpoint's)
    profile=          SLOTQ_PROFILE        profile = "research"       (one of the file's profiles)
    aws_profile=      SLOTQ_AWS_PROFILE    aws_profile = "research"   (AWS credentials profile)
    priority=         SLOTQ_PRIORITY       priority = 10              (of jobs that name none)
    project=          SLOTQ_PROJECT        project = "vision"         (of jobs that name none)

    prices=           SLOTQ_PRICES         prices = "~/prices.toml"   (of `slotq usage`)

and for `slotq submit -- COMMAND` instance_type, image, role, pool, output (SLOTQ_INSTANCE_TYPE …).

A profile is a table of the file. Settings above the tables apply to all profiles:

    [profiles.research]
    queue = "research-queue"

SLOTQ_CONFIG names another file; XDG_CONFIG_HOME is respected. Each value records its source, so
that an error message can name the source.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from slotq.errors import NotConfigured
from slotq_core.spelling import did_you_mean
from slotq_core.wire.pool_definition import CLASS_NAME
from slotq_core.wire.setting_tags import PRIORITY_LIMIT

SETTINGS = (
    "endpoint",
    "api_id",
    "queue",
    "region",
    "profile",
    "aws_profile",
    "priority",
    "project",
    "instance_type",
    "image",
    "role",
    "pool",
    "output",
    "prices",
)
PROFILES = "profiles"
"""The name of the file's table of profiles."""
_PROFILE_NAME = re.compile(r"[A-Za-z0-9_-]+")
_REGION_OF_HOST = re.compile(r"\.execute-api\.([a-z0-9-]+)\.(?:vpce\.)?amazonaws\.")
_VPC_HOST = re.compile(r"^vpce-.*\.vpce\.amazonaws\.")
_ROLE = re.compile(r"arn:[a-z-]+:iam::\d{12}:role/.+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """Settings as read. A missing setting raises an error only when it is needed."""

    endpoint: str | None = None
    """Base URL of the API, with its stage, without a final slash."""
    queue: str | None = None
    """Name of the queue's stack, used to find the endpoint (`slotq.transport.discovery`)."""
    api_id: str | None = None
    """The API's id; required if the endpoint is the host name of a VPC endpoint."""
    region: str | None = None
    """Region of the signature; None: the endpoint's region, else that of AWS's own settings."""
    profile: str | None = None
    """The selected profile of the file."""
    aws_profile: str | None = None
    """The profile of AWS's own files that signs; None: boto3 finds the credentials."""
    priority: int | str | None = None
    """Priority of jobs without a priority tag; None: the queue's default."""
    project: str | None = None
    """Project of jobs that name none; None: the caller's default in the queue."""
    instance_type: str | None = None
    """Instance type of jobs made from a command (`slotq.packaging.command_job`), as are the next
    four."""
    image: str | None = None
    """URI of the training image."""
    role: str | None = None
    """ARN of the execution role."""
    pool: str | None = None
    """Pools that the job may run in, separated by commas, in order of preference."""
    output: str | None = None
    """S3 URI below which code, models and checkpoints are stored."""
    prices: str | None = None
    """The file with the prices of instances (`slotq.cost.instance_prices`); None: the public
    prices that come with the client."""
    file: Path | None = None
    """The config file, whether or not it exists."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where each setting came from: "argument", "SLOTQ_…", or the file's path and profile."""

    def source(self, setting: str) -> str:
        return self.sources.get(setting, "not set")

    def required_endpoint(self) -> str:
        """The endpoint. Raises NotConfigured, with the ways to set an endpoint."""
        if self.endpoint is None:
            raise NotConfigured(
                "the endpoint of the queue is not configured. Run `slotq configure`; or set "
                "SLOTQ_ENDPOINT to the API's URL with its stage "
                "(https://<id>.execute-api.<region>.amazonaws.com/prod), or "
                "SLOTQ_QUEUE to the name of its stack, or write "
                f'endpoint = "…" into {self.file}, or pass endpoint=… (--endpoint). '
                'On one machine: `slotq local start --detach`, then `eval "$(slotq local env)"`.'
            )
        return self.endpoint

    def signing_region(self) -> str | None:
        """The region of the signature, if these settings determine it."""
        host = urlsplit(self.endpoint or "").hostname or ""
        found = _REGION_OF_HOST.search(host)
        return self.region or (found.group(1) if found else None)


def load(
    arguments: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    document: Mapping[str, Any] | None = None,
) -> Config:
    """Settings from arguments, environment and file. Raises NotConfigured if one is malformed or
    unknown.

    Arguments that are None and empty variables are ignored. A profile passed as an argument takes
    precedence over the environment. A source that names a queue but no endpoint discards the
    endpoint and API id of sources with lower precedence. `document` replaces the content of the
    file.
    """
    env = os.environ if environ is None else environ
    path = config_path(env)
    if document is None:
        document = read(path, required=bool(env.get("SLOTQ_CONFIG")))
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for origin, found in _places(arguments or {}, env, path, document):
        if "queue" in found and "endpoint" not in found:
            values.pop("endpoint", None)
            values.pop("api_id", None)
        for setting, value in found.items():
            where = _variable(setting) if origin == "environment" else origin
            values[setting] = checked(setting, value, where)
            sources[setting] = where
    config = Config(**values, file=path, sources={name: sources[name] for name in values})
    _vpc_form(config)
    return config


def _places(
    arguments: Mapping[str, object],
    env: Mapping[str, str],
    path: Path,
    document: Mapping[str, Any],
) -> list[tuple[str, Mapping[str, object]]]:
    """The sources of settings and their values, lowest precedence first."""
    explicit = {name: value for name, value in arguments.items() if value is not None}
    variables = {s: env[_variable(s)] for s in SETTINGS if env.get(_variable(s))}
    shared, tables = _parts(path, document)
    profile = explicit.get("profile") or variables.get("profile") or shared.get("profile")
    own = _profile(path, str(profile), tables) if profile else ("", {})
    last = ("argument", explicit)
    if "profile" in explicit:
        return [(str(path), shared), ("environment", variables), own, last]
    return [(str(path), shared), own, ("environment", variables), last]


def config_path(env: Mapping[str, str]) -> Path:
    """The path of the config file, whether or not it exists."""
    if env.get("SLOTQ_CONFIG"):
        return at_home(env["SLOTQ_CONFIG"])
    home = env.get("XDG_CONFIG_HOME") or (env.get("HOME") or "~") + "/.config"
    return at_home(home) / "slotq" / "config.toml"


def at_home(path: str) -> Path:
    """The path with `~` replaced. It stays for a user without a home, as some containers have."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - pathlib's raises then


def read(path: Path, *, required: bool = False) -> dict[str, Any]:
    """The content of the file; empty if there is no file and it is not `required`.

    Raises NotConfigured if a required file is missing, or the file is unreadable or not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if required:
            raise NotConfigured(f"SLOTQ_CONFIG names {path}, which does not exist") from None
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise NotConfigured(f"{path} cannot be read as TOML: {error}") from None


def profile_name(name: str) -> str:
    """Return `name`. Raises NotConfigured if no profile may have this name."""
    if not _PROFILE_NAME.fullmatch(name):
        raise NotConfigured(
            f"'{name}' cannot be a profile's name: use letters, digits, hyphens and underscores"
        )
    return name


def _variable(setting: str) -> str:
    return f"SLOTQ_{setting.upper()}"


def _parts(path: Path, document: Mapping[str, Any]) -> tuple[dict[str, object], dict[str, Any]]:
    """The settings for all profiles, and the tables of the profiles."""
    shared = dict(document)
    tables = shared.pop(PROFILES, {})
    if not isinstance(tables, dict) or not all(
        isinstance(table, dict) for table in tables.values()
    ):
        raise NotConfigured(f"{path}: '{PROFILES}' must hold tables, such as [{PROFILES}.research]")
    return _known(shared, str(path)), tables


def _profile(path: Path, name: str, tables: Mapping[str, Any]) -> tuple[str, dict[str, object]]:
    """The source text of the profile, and its settings."""
    if name not in tables:
        there = f"the profiles are {', '.join(tables)}" if tables else "it has none"
        there += did_you_mean(name, tables)
        raise NotConfigured(
            f"there is no profile '{name}' in {path}; {there}. `slotq --profile {name} "
            "configure` creates it (for a profile of AWS set aws_profile or SLOTQ_AWS_PROFILE)"
        )
    where = f"{path} [{PROFILES}.{name}]"
    if "profile" in tables[name]:
        raise NotConfigured(f"{where}: a profile cannot name a profile")
    return where, _known(tables[name], where)


def _known(found: dict[str, object], where: str) -> dict[str, object]:
    strange = min(set(found) - set(SETTINGS), default=None)
    if strange is not None:
        known = f"the settings are {', '.join(SETTINGS)}{did_you_mean(strange, SETTINGS)}"
        raise NotConfigured(f"{where}: there is no setting '{strange}'; {known}")
    return found


def checked(setting: str, value: object, where: str) -> Any:
    """Validate and normalise a value. Raises NotConfigured, which names the source `where`."""
    if setting == "priority":
        return _priority(value, where)
    if not isinstance(value, str) or not value.strip():
        raise NotConfigured(f"{setting} (from {where}) must be a text, not {value!r}")
    text = value.strip()
    match setting:
        case "endpoint":
            return _url(text, where)
        case "output" if not re.fullmatch(r"s3://[^/]+(/.*)?", text):
            raise NotConfigured(f"output (from {where}) must be s3://bucket/folder, not {text!r}")
        case "output":
            return text.rstrip("/")
        case "role" if not _ROLE.fullmatch(text):
            raise NotConfigured(
                f"role (from {where}) must be the ARN of an execution role "
                f"(arn:aws:iam::<account>:role/<name>), not {text!r}"
            )
        case "instance_type" if not text.startswith("ml."):
            raise NotConfigured(
                f"instance_type (from {where}) must be SageMaker's, such as ml.p5.48xlarge, "
                f"not {text!r}"
            )
    return text


def _priority(value: object, where: str) -> int | str:
    if isinstance(value, str) and CLASS_NAME.fullmatch(value):
        return value
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if type(number) is not int or abs(number) > PRIORITY_LIMIT:
        raise NotConfigured(
            f"priority (from {where}) must be the name of a class or an integer from "
            f"{-PRIORITY_LIMIT:,} to {PRIORITY_LIMIT:,}, not {value!r}"
        )
    return number


def _url(value: str, where: str) -> str:
    try:
        parts = urlsplit(value)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment:
        raise NotConfigured(
            f"endpoint (from {where}) must be a URL such as "
            f"https://<id>.execute-api.<region>.amazonaws.com/prod, not {value!r}"
        )
    return value.rstrip("/")


def _vpc_form(config: Config) -> None:
    host = urlsplit(config.endpoint or "").hostname or ""
    if _VPC_HOST.match(host) and config.api_id is None:
        raise NotConfigured(
            f"the endpoint {host} (from {config.source('endpoint')}) is a VPC endpoint, which "
            "serves every private API: set api_id (SLOTQ_API_ID) to the id of the queue's API"
        )
