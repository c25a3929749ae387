"""IPython's display of jobs, lists and pools, in HTML and plain text."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from slotq.jobs import progress
from tests.unit.client.fake_queue import client_of, pool_view, running, waiting

HOSTILE = "<script>alert(1)</script> & \x1b]0;owned\x07\u202e"


@pytest.fixture
def client(http):
    http.queue.pools = [pool_view("p5", used=1)]
    return client_of(http)


@pytest.fixture
def shell():
    made = InteractiveShell.instance()
    yield made
    InteractiveShell.clear_instance()


@pytest.fixture
def shown(shell):
    """The result of a cell by MIME type, as a frontend gets it."""

    def show(value):
        data, _ = shell.display_formatter.format(value)
        return data

    return show


def test_a_job_is_displayed(client, shown):
    data = shown(client.get("job3"))
    assert set(data) == {"text/plain", "text/html"}
    assert "<td>job3</td><td>pending</td>" in data["text/html"]
    head, row = data["text/plain"].splitlines()
    assert head.split() == ["Job", "State", "Priority", "Place", "Since", "Earliest", "Why"]
    assert row.startswith("job3  pending  1         1      2026-11-20 10:30 UTC")
    assert row.endswith("needs 1 slot; pool p5 has 0 free of 2")


@pytest.mark.parametrize("ask", ["list", "jobs"])
def test_a_list_and_a_slice_are_displayed(client, shown, ask):
    found = getattr(client, ask)()
    data = shown(found)
    assert re.findall(r"<tr><td>(.*?)</td>", data["text/html"]) == ["job1", "job3", "job9"]
    assert [line.split()[0] for line in data["text/plain"].splitlines()[1:]] == [
        "job1", "job3", "job9",
    ]  # fmt: skip
    assert shown(found[1:2])["text/html"].count("<tr>") == 2
    assert found[0].name == "job1"


def test_an_empty_list_is_displayed(client, shown):
    data = shown(client.list("held"))
    assert data["text/html"].count("<tr>") == 1
    assert data["text/plain"].startswith("Job")


def test_pools_and_a_history_are_displayed(client, shown):
    assert "<td>p5</td><td>ml.p5.48xlarge</td>" in shown(client.pools())["text/html"]
    data = shown(client.get("job1").history())
    assert data["text/plain"].splitlines()[1].endswith("evicted  job4")


@pytest.mark.parametrize("kind", ["text/html", "text/plain"])
def test_texts_of_others_are_escaped_in_html_and_terminals(client, http, shown, kind):
    http.queue.jobs["job3"] = waiting(1, HOSTILE, name="job3", submitter=HOSTILE)
    http.queue.jobs["job1"] = running(message=HOSTILE)
    for value in (client.get("job3"), client.list(), client.jobs()):
        data = shown(value)
        assert "<script" not in data["text/html"]
        assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp;" in data["text/html"]
        assert all(each.isprintable() or each == "\n" for each in data[kind])


def test_waiting_is_displayed_in_both_forms_without_an_objects_repr(shell, monkeypatch):
    monkeypatch.setattr(shell, "kernel", SimpleNamespace(), raising=False)
    notebook = progress.here()
    assert isinstance(notebook, progress.Notebook)
    with capture_output() as captured:
        notebook.waiting(waiting(2))
        notebook.waiting(waiting(1))
    assert [set(output.data) for output in captured.outputs] == [{"text/plain", "text/html"}] * 2
    assert "job1" in captured.outputs[0].data["text/plain"], "and not the name of an object"


def test_a_console_displays_plain_text(client, shell, capsys):
    shell.user_ns["job"] = client.get("job3")
    shell.run_cell("job", store_history=False)
    said = capsys.readouterr().out
    assert "job3  pending" in said
    assert "<" not in said
