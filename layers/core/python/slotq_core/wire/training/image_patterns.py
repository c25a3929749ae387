"""Training images, and patterns of those that a project allows.

    HOST/team-a            the repository, with any tag or digest
    HOST/team-a/*          every repository below it
    HOST/team-a:2.*        these tags of the repository
    HOST/team-a@sha256:…   this digest
    arn:aws:sagemaker:*:123456789012:algorithm/*   algorithms, by ARN

`*` matches any text within the registry's host, the repository, the tag or the digest, never across
these. A digest decides which image is pulled, whatever tag precedes it. So a pattern with a tag
matches no image with a digest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from slotq_core.model.callers import fits

ANY = "*"
"""The pattern of every image and algorithm."""
ALGORITHM = "arn:"
"""How the ARNs of algorithms, and their patterns, begin."""
_LATEST = "latest"
"""The tag of an image that names neither tag nor digest."""

_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    r"(?:(?P<host>[a-zA-Z0-9.-]+(?::[0-9]+)?)/)?"
    rf"(?P<repository>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>[a-z0-9+._-]+:[0-9a-fA-F]{32,}))?"
)
"""Docker's form of a reference. An image of any other form fits no pattern but ANY."""
_PATTERN = re.compile(
    r"(?:(?P<host>[^/@]+)/)?(?P<repository>[^:@]+)(?::(?P<tag>[^@/]+))?(?:@(?P<digest>[^@/]+))?"
)
_LONGEST = 1024
"""Characters of an image; SageMaker's own bound is 255."""


@dataclass(frozen=True, slots=True)
class _Reference:
    host: str
    repository: str
    tag: str
    digest: str


def image_fits(pattern: str, image: str) -> bool:
    """Whether the pattern allows the image."""
    if pattern == ANY:
        return True
    wanted, named = _read(_PATTERN, pattern), _read(_IMAGE, image)
    if wanted is None or named is None:
        return False
    if bool(wanted.host) != bool(named.host) or not fits(wanted.host, named.host):
        return False
    if not fits(wanted.repository, named.repository):
        return False
    if wanted.digest:
        return fits(wanted.digest, named.digest) and fits(wanted.tag or ANY, named.tag)
    return not wanted.tag or (not named.digest and fits(wanted.tag, named.tag or _LATEST))


def algorithm_fits(pattern: str, algorithm: str) -> bool:
    """Whether the pattern allows the algorithm. Only a pattern of ARNs allows one: an algorithm's
    image is not known."""
    return pattern == ANY or (
        pattern.startswith(ALGORITHM)
        and algorithm.startswith(ALGORITHM)
        and fits(pattern, algorithm)
    )


def is_pattern(text: str) -> bool:
    """Whether the text can be a pattern of images or algorithms."""
    return text.startswith(ALGORITHM) or _read(_PATTERN, text) is not None


@lru_cache(maxsize=1024)
def _read(form: re.Pattern[str], text: str) -> _Reference | None:
    found = form.fullmatch(text) if len(text) <= _LONGEST and text.isprintable() else None
    return (
        _Reference(**{name: part or "" for name, part in found.groupdict().items()})
        if found
        else None
    )
