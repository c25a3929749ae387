"""A group with much text comes in pages, each of which fits into an answer of Lambda's: 6 MB with
the body put into JSON once more."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from slotq_core.model.attempts import Attempt
from slotq_core.model.groups import Group, StoredGroup
from slotq_core.model.jobs import MAX_AFTER
from slotq_core.operations.jobs.group_lookup import GroupStatus
from slotq_core.operations.jobs.group_summary import summary_of
from slotq_core.operations.status import Status
from slotq_core.wire.groups.group_submission import MOST_MEMBERS
from slotq_core.wire.groups.views import group_view, summary_view
from slotq_core.wire.views.jobs import job_view
from tests.contract.worlds import a_job, an_attempt

AWAITED = tuple(f"{'awaited-' * 7}{n:07}" for n in range(MAX_AFTER))
NAMES = tuple(f"{'waiting-' * 7}{n:07}" for n in range(MOST_MEMBERS))
PLACE = f"s3://bucket/{'folder/' * 40}"


def a_group(attempts: int, awaited: Sequence[str]) -> GroupStatus:
    """A group of as many members as can be."""
    group = Group(name="grid", members=NAMES, max_parallel=8)
    jobs = [a_job(name, group="grid", after=awaited, depends_on=awaited) for name in NAMES]
    told = [_told(an_attempt(jobs[0]), number + 1) for number in range(attempts)]
    return GroupStatus(
        stored=StoredGroup(group=group, submitter="arn:aws:iam::1:user/ada", digest="d"),
        members={job.name: Status(job=job, attempts=tuple(told)) for job in jobs},
        summary=summary_of(group, jobs, goal_met=False),
    )


def _told(attempt: Attempt, number: int) -> Attempt:
    message = 'it said "no" ' * 20
    return replace(attempt, number=number, message=message, artifact=PLACE, checkpoints=PLACE)


def pages(status: GroupStatus) -> Iterator[tuple[list[str], int]]:
    """The members of each page, and how many bytes its answer has."""
    start: int | None = 0
    while start is not None:
        found, start = status.page(start)
        jobs = [job_view(it.job, attempts=it.attempts) for it in found.values()]
        summary = summary_view(status.stored, [job.state for job in jobs])
        answer = {"body": group_view(summary, jobs).model_dump_json()}
        yield [*found], len(json.dumps(answer))


@pytest.mark.parametrize(
    ("attempts", "awaited", "most_pages"),
    [(0, (), 1), (1, (), 2), (0, AWAITED, 8), (20, AWAITED, 40)],
    ids=["usual", "an attempt each", "after many", "after many, many attempts"],
)
def test_each_page_of_the_largest_group_fits_into_an_answer(
    attempts: int, awaited: Sequence[str], most_pages: int
) -> None:
    found = [*pages(a_group(attempts, awaited))]
    assert [name for names, _ in found for name in names] == [*NAMES]
    assert max(size for _, size in found) < 5_000_000
    assert len(found) <= most_pages


def test_pages_go_on_where_records_expire_between_them() -> None:
    status = a_group(0, AWAITED)
    first, start = status.page()
    rest = {name: it for name, it in status.members.items() if name not in [*first][-2:]}
    second, _ = replace(status, members=rest).page(start or 0)
    assert next(iter(second)) == NAMES[len(first)]
    assert status.page(MOST_MEMBERS) == ({}, None)
