"""The user's settings: from arguments, else the environment, else the config file.

    argument          environment      ~/.config/slotq/config.toml
    endpoint=         SLOTQ_ENDPOINT   endpoint = "https://<id>.execute-api.<region>.amazonaws.com/prod"
                      SLOTQ_QUEUE      queue = "slotq"            (looked up: slotq.discovery)
    api_id=           SLOTQ_API_ID     api_id = "a1b2c3d4e5"      (with a vpce-… endpoint)
    region=           SLOTQ_REGION     region = "eu-west-1"       (default: the endpoint's)
    profile=          SLOTQ_PROFILE    profile = "research"       (AWS credentials profile)
    priority=         SLOTQ_PRIORITY   priority = 10              (of jobs that name none)

SLOTQ_CONFIG names another file; XDG_CONFIG_HOME is honoured. Each value knows where it came from,
so that a message about a wrong one can say so.
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
from slotq_core.wire import PRIORITY_LIMIT

SETTINGS = ("endpoint", "api_id", "queue", "region", "profile", "priority")
_REGION_OF_HOST = re.compile(r"\.execute-api\.([a-z0-9-]+)\.(?:vpce\.)?amazonaws\.")
_VPC_HOST = re.compile(r"^vpce-.*\.vpce\.amazonaws\.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """Settings as read; nothing is missing until someone asks for it."""

    endpoint: str | None = None
    """Base URL of the API, its stage included, without a final slash."""
    queue: str | None = None
    """The name of the queue's stack: by it the endpoint is found (`slotq.discovery`)."""
    api_id: str | None = None
    """The API's id; needed where the endpoint is a VPC endpoint's own host name."""
    region: str | None = None
    """For the signature; None: look at the endpoint, then at AWS's own settings."""
    profile: str | None = None
    priority: int | None = None
    """Of a job that carries no priority tag; None: the queue's default."""
    file: Path | None = None
    """The config file that is, or would be, read."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """By setting: "argument", "SLOTQ_…" or the file's path."""

    def source(self, setting: str) -> str:
        return self.sources.get(setting, "not set")

    def required_endpoint(self) -> str:
        """The endpoint. Raises NotConfigured with the ways to set it."""
        if self.endpoint is None:
            raise NotConfigured(
                "no endpoint of the queue is configured. Set SLOTQ_ENDPOINT to the API's URL with "
                "its stage (https://<id>.execute-api.<region>.amazonaws.com/prod), or "
                "SLOTQ_QUEUE to the name of its stack, or write "
                f'endpoint = "…" into {self.file}, or pass endpoint=… (--endpoint). '
                'On one machine: `slotq local start --detach`, then `eval "$(slotq local env)"`.'
            )
        return self.endpoint

    def signing_region(self) -> str | None:
        """The region of the signature as far as these settings know it."""
        host = urlsplit(self.endpoint or "").hostname or ""
        found = _REGION_OF_HOST.search(host)
        return self.region or (found.group(1) if found else None)


def load(
    arguments: Mapping[str, object] | None = None, *, environ: Mapping[str, str] | None = None
) -> Config:
    """Settings from all three places. Raises NotConfigured for a malformed or unknown one.

    An argument that is None, and a variable that is empty, count as not given.
    """
    env = os.environ if environ is None else environ
    path = _path(env)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for origin, found in (
        (str(path), _file(path, required=bool(env.get("SLOTQ_CONFIG")))),
        ("environment", {s: env.get(f"SLOTQ_{s.upper()}") or None for s in SETTINGS}),
        ("argument", dict(arguments or {})),
    ):
        for setting, value in found.items():
            if value is None:
                continue
            where = f"SLOTQ_{setting.upper()}" if origin == "environment" else origin
            values[setting] = checked(setting, value, where)
            sources[setting] = where
    config = Config(**values, file=path, sources=sources)
    _vpc_form(config)
    return config


def _path(env: Mapping[str, str]) -> Path:
    if env.get("SLOTQ_CONFIG"):
        return Path(env["SLOTQ_CONFIG"]).expanduser()
    home = env.get("XDG_CONFIG_HOME") or (env.get("HOME") or "~") + "/.config"
    return Path(home).expanduser() / "slotq" / "config.toml"


def _file(path: Path, *, required: bool) -> dict[str, object]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if required:
            raise NotConfigured(f"SLOTQ_CONFIG names {path}, which is not there") from None
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise NotConfigured(f"{path} cannot be read as TOML: {error}") from None
    unknown = sorted(set(found) - set(SETTINGS))
    if unknown:
        raise NotConfigured(
            f"{path}: the setting '{unknown[0]}' is not known; there are {', '.join(SETTINGS)}"
        )
    return found


def checked(setting: str, value: object, where: str) -> object:
    """The value as its setting takes it. Raises NotConfigured, which names where it came from."""
    if setting == "priority":
        return _priority(value, where)
    if not isinstance(value, str) or not value.strip():
        raise NotConfigured(f"{setting} (from {where}) must be a text, not {value!r}")
    return _url(value.strip(), where) if setting == "endpoint" else value.strip()


def _priority(value: object, where: str) -> int:
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if type(number) is not int or abs(number) > PRIORITY_LIMIT:
        raise NotConfigured(
            f"priority (from {where}) must be an integer from {-PRIORITY_LIMIT:,} to "
            f"{PRIORITY_LIMIT:,}, not {value!r}"
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
