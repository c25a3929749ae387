"""A job's output becomes log events, in bounded memory."""

from __future__ import annotations

import io
import itertools
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from slotq.local.container.job_output import (
    LONGEST_LINE,
    LONGEST_OUTPUT,
    NOT_KEPT,
    LogStream,
    lines_of,
)
from slotq.local.container.workdir import Host


class Endless(io.RawIOBase):
    """An output without a line break, as of a progress bar or of a broken loop."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        buffer[:] = b"x" * len(buffer)
        return len(buffer)


def test_a_line_without_an_end_needs_the_memory_of_one_event() -> None:
    tracemalloc.start()
    try:
        for text in itertools.islice(lines_of(io.BufferedReader(Endless())), 40):
            assert text == "x" * LONGEST_LINE
        assert tracemalloc.get_traced_memory()[1] < 8 * LONGEST_LINE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        (b"a\n\nb\r\nc", ["a", "", "b", "c"]),
        (b"x" * LONGEST_LINE + b"\ny\n", ["x" * LONGEST_LINE, "y"]),
        (b"x" * (LONGEST_LINE + 1) + b"\n", ["x" * LONGEST_LINE, "x"]),
        (b"x" * (LONGEST_LINE - 1) + "ä\n".encode(), ["x" * (LONGEST_LINE - 1), "ä"]),
        (b"x" * (LONGEST_LINE - 1) + b"\xc3", ["x" * (LONGEST_LINE - 1), "\ufffd"]),
        (b"a\xc3\nb", ["a\ufffd", "b"]),
        (b"", []),
    ],
)
def test_a_line_longer_than_an_event_continues_in_the_next(output: bytes, lines: list[str]) -> None:
    assert list(lines_of(io.BytesIO(output))) == lines


class Logs:
    def __init__(self) -> None:
        self.batches: list[int] = []
        self.lengths = 0
        self.last = ""

    def put_log_events(self, *, logEvents: list[dict[str, str]], **_: object) -> None:  # noqa: N803
        self.batches.append(len(logEvents))
        self.lengths += sum(len(event["message"]) for event in logEvents)
        self.last = logEvents[-1]["message"]


@pytest.mark.parametrize(("text", "at_once"), [("y", 500), ("x" * LONGEST_LINE, 4)])
def test_lines_wait_for_the_service_once_they_fill_a_call(text: str, at_once: int) -> None:
    logs = Logs()
    stream = LogStream(logs, "job", "algo-1")
    for _ in range(3 * at_once):
        stream.line(text)
    assert sum(logs.batches) == 3 * at_once
    assert max(logs.batches) <= at_once


@pytest.mark.parametrize("text", ["", "x" * LONGEST_LINE])
def test_an_endless_output_is_kept_up_to_a_bound(text: str) -> None:
    logs = Logs()
    stream = LogStream(logs, "job", "algo-1")
    for _ in range(LONGEST_OUTPUT // (400 + len(text)) + 1_000):
        stream.line(text)
    stream.flush()
    assert logs.last == NOT_KEPT
    assert logs.lengths <= LONGEST_OUTPUT


def test_of_a_long_failure_file_the_beginning_is_read(tmp_path: Path) -> None:
    host = Host(name="algo-1", root=tmp_path, isolated=False)
    file = tmp_path / "output/failure"
    file.parent.mkdir()
    with file.open("wb") as written:
        written.write(b"out of memory\n")
        written.truncate(1 << 40)
    assert host.failure.startswith("out of memory\n")
    assert len(host.failure) < 100_000
