"""Parse requests about jobs: changes and retries, from its body. Imported with the first such
request."""

from __future__ import annotations

from slotq_core.model.jobs import Submission
from slotq_core.names import PROJECT_TAG
from slotq_core.operations.amend import Amendment, ChangeRequest, Retry, Revision
from slotq_core.ports.training import Request
from slotq_core.wire.job_changes import AMENDMENT_KEYS, AmendmentBody, ChangeBody, retagged
from slotq_core.wire.submission import parse_submission, read_submission
from slotq_core.wire.training.processing_request import as_sent
from slotq_core.wire.training.processing_request import renamed as renamed_request


def change_request_of(body: ChangeBody) -> ChangeRequest:
    """What one entry of a request about many jobs wants."""
    return ChangeRequest(
        name=body.name,
        amendment=None if body.cancel or body.retry else amendment_of(body),
        retry=_retry(body) if body.retry else None,
        states=frozenset(body.states),
    )


def amendment_of(body: AmendmentBody) -> Amendment:
    """The amendment in a body. Its tags and the request's other tags are read together, as in a
    submission."""

    def revise(request: Request) -> Revision:
        before, _ = read_submission(request)
        after, revised = read_submission(retagged(request, body.tags))
        return Revision(request=revised, before=before, after=after)

    own = {key: getattr(body, key) for key in AMENDMENT_KEYS if key != "tags"}
    return Amendment(revise=revise if body.tags else None, project=_project(body), **own)


def _retry(body: ChangeBody) -> Retry:
    """The retry in a body. The new request is read as a new submission is."""

    def renamed(request: Request, name: str) -> tuple[Submission, Request]:
        kept = retagged(request, body.tags) if body.tags else request
        return parse_submission(renamed_request(as_sent(kept), name))

    return Retry(renamed=renamed, new_name=body.new_name)


def _project(body: AmendmentBody) -> str | None:
    """The project that the body names; None: none."""
    named = body.tags.get(PROJECT_TAG)
    return None if named is None else named.strip()
