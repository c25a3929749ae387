"""How the runner of the documentation's pages (tests/e2e/pages) reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.pages import blocks as reading
from tests.e2e.pages.output import missing
from tests.e2e.pages.shell import plain_words, statements


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ("Write `queue.yaml`:\n\n```yaml\na: 1\n```\n", ("yaml", "queue.yaml", "a: 1\n")),
        ("See `a.yaml`. Then:\n\n```yaml\na: 1\n```\n", ("yaml", None, "a: 1\n")),
        ("`a.yaml` is there.\n\n```yaml\na: 1\n```\n", ("yaml", None, "a: 1\n")),
        ("`d/train.py` is run:\n\n```python\npass\n```\n", ("python", "d/train.py", "pass\n")),
        ("It reads `a.yaml`:\n\n```python\npass\n```\n", ("python", None, "pass\n")),
        ("```none\n# gang.yaml\nname: g\n```\n", ("none", "gang.yaml", "# gang.yaml\nname: g\n")),
        ("It prints:\n\n    NAME\n    job1\n\n", ("indented", None, "NAME\njob1\n")),
        ("```sh\nslotq ls\n```\n", ("sh", None, "slotq ls\n")),
    ],
)
def test_a_block_is_a_file_if_the_sentence_before_says_so(
    page: str,
    found: tuple[str, str | None, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "page.md").write_text(page)
    monkeypatch.setitem(reading.PAGES, "page", tmp_path / "page.md")
    (block,) = reading.blocks("page")
    assert (block.kind, block.file, block.text) == found


def test_a_statement_has_as_many_lines_as_bash_wants() -> None:
    text = (
        "# who I am\nslotq whoami\nslotq submit \\\n  job.json\ncat > f <<'E'\nit's\nE\n"
        "for x in a\ndo echo $x\ndone\n\npython -c 'import os\nprint(1)'\n"
    )
    assert list(statements(text)) == [
        "slotq whoami",
        "slotq submit \\\n  job.json",
        "cat > f <<'E'\nit's\nE",
        "for x in a\ndo echo $x\ndone",
        "python -c 'import os\nprint(1)'",
    ]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("slotq ls  # all of it", ["slotq", "ls"]),
        (
            "slotq projects set v 'members=[\"*\"]'",
            ["slotq", "projects", "set", "v", 'members=["*"]'],
        ),
        ("slotq ls > file", None),
        ("SLOTQ_X=1 slotq ls", None),
        ('slotq submit -- echo "$HOME"', None),
    ],
)
def test_what_only_a_shell_understands_goes_to_a_shell(
    statement: str, words: list[str] | None
) -> None:
    assert plain_words(statement) == words


def test_shown_lines_are_compared_but_for_spaces_times_and_gaps() -> None:
    printed = ["job1   running  since 12:03:04, 5 s\n", "job2  waits for a slot of vision\n"]
    assert missing("job1 running   since 09:00, 61 s\n\njob2  waits …\n", printed) == []
    assert missing("job1 running\njob3\n", printed) == ["job1 running", "job3"]
