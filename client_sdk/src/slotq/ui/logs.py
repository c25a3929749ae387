"""The last lines of a job's logs and then the new ones, read from CloudWatch with the user's
credentials.

The queue's API has no logs. A page asks again and again with the cursor of its last answer; the
server remembers for each cursor how far it has read.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

from botocore.exceptions import BotoCoreError

from slotq.errors import NoSuchJob, SlotQError
from slotq.jobs.job_calls import JobCalls
from slotq.jobs.job_logs import LogTail
from slotq.ui.relay import Reply, refusal

MOST_LINES = 5_000
"""Lines of one answer: the last ones."""
FIRST_LINES = 1_000
"""Lines of each attempt and host that a page begins with: the last ones, at most 1 MB."""
FIRST_ATTEMPTS = 5
"""Attempts that a page begins with: the last ones."""
_READERS = 32
"""The most cursors to remember; the page of a forgotten cursor starts from the beginning."""


@dataclass(kw_only=True)
class _Reader:
    """How far one page has read one job's logs."""

    name: str
    cursor: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    lines: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=MOST_LINES))
    """Training job and text of lines that no answer has brought yet."""
    read: int = 0
    """Lines since the last answer, with those that `lines` has dropped."""
    begun: int | None = None
    """How many attempts are left out that ran before the first one shown. None: nothing is read."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, training_job: str, text: str) -> None:
        self.lines.append((training_job, text))
        self.read += 1

    def taken(self, tail: LogTail, *, earlier: bool) -> dict[str, Any]:
        """The answer with the new lines, which are then forgotten. `earlier`: whether an attempt
        before these has lines, too."""
        found = [{"training_job": job, "message": text} for job, text in self.lines]
        left_out, self.read = self.read - len(found), 0
        self.lines.clear()
        return {
            "version": 1,
            "cursor": self.cursor,
            "lines": found,
            "left_out": left_out,
            "earlier": earlier or tail.skipped,
            "trouble": "" if tail.trouble is None else str(tail.trouble),
        }


class Logs:
    def __init__(self, jobs: JobCalls, cloudwatch: Callable[[], Any]) -> None:
        """`cloudwatch` makes boto3's client for `logs`."""
        self._jobs = jobs
        self._cloudwatch = cloudwatch
        self._readers: OrderedDict[str, tuple[_Reader, LogTail]] = OrderedDict()
        self._lock = threading.Lock()

    def answer(self, target: str) -> Reply:
        """The lines since the cursor in `NAME?cursor=…`; without one, the last ones."""
        path, _, asked = target.partition("#")[0].partition("?")
        name = unquote(path)
        cursor = parse_qs(asked).get("cursor", [""])[0]
        try:
            reader, tail = self._reader(name, cursor)
            with reader.lock:
                job = self._jobs.view(name)
                ran = [attempt for attempt in job.attempts if attempt.running_since is not None]
                shown = ran[-FIRST_ATTEMPTS:] if reader.begun is None else ran[reader.begun :]
                reader.begun = len(ran) - len(shown)
                tail.show(job.model_copy(update={"attempts": shown}))
                said = reader.taken(tail, earlier=reader.begun > 0)
        except NoSuchJob as error:
            return refusal(404, "no_such_job", str(error))
        except (SlotQError, BotoCoreError) as error:
            return refusal(502, "cannot_reach", str(error))
        return Reply(status=200, body=json.dumps(said).encode())

    def _reader(self, name: str, cursor: str) -> tuple[_Reader, LogTail]:
        with self._lock:
            known = self._readers.get(cursor)
            if known is not None and known[0].name == name:
                self._readers.move_to_end(cursor)
                return known
            reader = _Reader(name=name)
            client = self._cloudwatch()
            tail = LogTail(client, say=lambda _: None, line=reader.add, last=FIRST_LINES)
            self._readers[reader.cursor] = reader, tail
            if len(self._readers) > _READERS:
                self._readers.popitem(last=False)
            return reader, tail
