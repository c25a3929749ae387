"""Rules within a project's prescriptions for requests. Each fault has its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from slotq_core.model.callers import fits
from slotq_core.wire.document.faults import DocumentFault, said
from slotq_core.wire.document.requests.request_fields import TAGS, overlaps
from slotq_core.wire.document.sections import ProjectSection, RequestsSection
from slotq_core.wire.training import image_patterns, place_patterns

_ROLE = "RoleArn"


def faults_of_requests(project: ProjectSection) -> Iterator[DocumentFault]:
    """The faults, relative to the project's entry."""
    rules = project.requests
    faults = [*_fields(rules), *_tags(rules), *_patterns(rules), *_role(rules)]
    yield from (DocumentFault(("requests", *fault.loc), fault.message) for fault in faults)
    if rules.approval and not project.admins:
        yield DocumentFault(
            ("requests", "approval"), "name admins of the project: only they release jobs"
        )


def _fields(rules: RequestsSection) -> Iterator[DocumentFault]:
    for name in ("defaults", "fixed"):
        for path, outer in overlaps(getattr(rules, name)):
            yield DocumentFault((name, path), f"'{outer}' is given too; name one of them")
    fixed = set(rules.fixed) - {TAGS}
    for path in rules.defaults:
        parts = path.split(".")
        if fixed.intersection(".".join(parts[:length]) for length in range(1, len(parts) + 1)):
            yield DocumentFault(("defaults", path), "it is fixed, so a default means nothing")


def _tags(rules: RequestsSection) -> Iterator[DocumentFault]:
    fixed = {tag["Key"] for tag in rules.fixed.get(TAGS, ())}
    for number, tag in enumerate(rules.defaults.get(TAGS, ())):
        if tag["Key"] in fixed:
            yield DocumentFault(
                ("defaults", TAGS, number, "Key"), f"the tag '{tag['Key']}' is fixed"
            )


def _patterns(rules: RequestsSection) -> Iterator[DocumentFault]:
    image = "a repository, with or without tag or digest, or the ARN of an algorithm, is needed"
    place = (
        "s3://bucket/path (without dots as parts), fs-…/path or an ARN is needed; * matches "
        "within one part"
    )
    yield from _of_form("images", rules.images, image_patterns.is_pattern, image)
    yield from _of_form("outputs", rules.outputs, place_patterns.is_pattern, place)


def _of_form(
    name: str, patterns: Sequence[str], legal: Callable[[str], bool], needed: str
) -> Iterator[DocumentFault]:
    for number, pattern in enumerate(patterns):
        if not legal(pattern):
            yield DocumentFault((name, number), f"{needed}, not {said(pattern)}")


def _role(rules: RequestsSection) -> Iterator[DocumentFault]:
    """A role that the project itself does not allow could never be used."""
    for name, fields in (("defaults", rules.defaults), ("fixed", rules.fixed)):
        if rules.roles and _ROLE in fields and not _any(rules.roles, fields[_ROLE]):
            yield DocumentFault((name, _ROLE), "the project's 'roles' do not allow this role")


def _any(patterns: Iterable[str], text: str) -> bool:
    return any(fits(pattern, text) for pattern in patterns)
