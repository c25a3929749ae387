"""IPython's display of jobs, lists and pools, in HTML and plain text."""

from __future__ import annotations

import re
from types import SimpleNamespace

import ipywidgets
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display
from IPython.utils.capture import capture_output

from slotq.errors import CannotReach
from slotq.jobs import progress
from slotq.jobs.notebook import buttons, live
from slotq.jobs.notebook.buttons import SURE, Buttons
from slotq_core.wire.views.jobs import ProgressView
from tests.unit.client.fake_queue import attempt, client_of, ended, pool_view, running, waiting

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
    assert "<b>job3</b>" in data["text/html"]
    assert ">pending</span>" in data["text/html"]
    assert "needs 1 slot; pool p5 has 0 free of 2" in data["text/html"]
    head, row = data["text/plain"].splitlines()
    assert head.split() == [
        "Job",
        "State",
        "Priority",
        "Place",
        "Pools",
        "Since",
        "Earliest",
        "Why",
    ]
    assert row.startswith("job3  pending  1         1      p5     2026-11-20 10:30 UTC")
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


@pytest.fixture
def kernel(shell, monkeypatch):
    """The shell as a notebook's kernel has it, without ipywidgets; nothing is on show, and no
    thread follows."""
    monkeypatch.setattr(buttons, "find_spec", lambda _: None)
    monkeypatch.setattr(shell, "kernel", SimpleNamespace(), raising=False)
    monkeypatch.setattr(live, "_here", [])
    monkeypatch.setattr(live, "_in_a_thread", lambda _: None)
    return shell


def shown_by(captured):
    """What was displayed: whether anew, under which id, and the HTML."""
    return [
        (
            not output.update,
            output.transient["display_id"],
            output.data["text/html"],
        )
        for output in captured.outputs
    ]


def test_a_displayed_job_is_a_card_that_follows_it(client, http, kernel):
    kernel.user_ns["job"] = client.get("job3")
    with capture_output() as captured:
        kernel.run_cell("job", store_history=False)
        http.queue.jobs["job3"] = running(name="job3", progress=ProgressView(step=1, of=4))
        assert live._here[0].look()
        assert live._here[0].look(), "nothing has changed, so nothing is shown"
        http.queue.jobs["job3"] = ended(name="job3")
        assert not live._here[0].look()
    first, second, third = shown_by(captured)
    assert [each[0] for each in (first, second, third)] == [True, False, False]
    assert len({each[1] for each in (first, second, third)}) == 1, "one card, updated in place"
    assert ">pending</span>" in first[2]
    assert "<progress" in second[2] and 'value="0.2500"' in second[2] and "25 %" in second[2]
    assert ">completed</span>" in third[2] and "<progress" not in third[2]
    assert "job3" not in captured.stdout, "the card is all"


def test_a_verb_updates_the_card_at_once(client, kernel):
    job = client.get("job3")
    with capture_output() as captured:
        display(job)
        job.hold()
    assert ">held</span>" in shown_by(captured)[-1][2]


def test_a_card_survives_a_queue_that_does_not_answer(client, http, kernel, monkeypatch):
    monkeypatch.setattr(live, "PATIENCE", 2)
    job = client.get("job3")
    with capture_output():
        display(job)
        cards = live._here[0]
        http.troubles += [CannotReach("no route")] * 20
        assert cards.look()
        assert not cards.look(), "it stops asking after so many failures"


def test_only_the_latest_cards_follow(client, http, kernel, monkeypatch):
    monkeypatch.setattr(live, "MOST", 2)
    with capture_output():
        for name in ("job1", "job3", "job1"):
            live.show(client.jobs.view(name), client.jobs)
        before = len(http.sent)
        live._here[0].look()
    asked = [request.url.rsplit("/", 1)[-1] for request in http.sent[before:]]
    assert asked == ["job3", "job1"]


class Pressed(Buttons):
    """The buttons of a job's card, with the real ipywidgets; what they tell is in `told`."""

    def __init__(self, name, client, clock):
        self.told = []
        super().__init__(
            client.jobs.view(name), client.jobs, self.told.append, widgets=ipywidgets, clock=clock
        )


@pytest.fixture
def pressed(client, clock):
    return lambda name: Pressed(name, client, clock)


def offered(made):
    return [each.description for each in made.box.children if isinstance(each, ipywidgets.Button)]


def test_what_the_state_allows_is_offered(client, http, pressed):
    made = pressed("job3")
    assert offered(made) == ["Hold", "Cancel"]
    made.hold.click()
    made.update(made.told[-1])
    assert (client.jobs.view("job3").state, offered(made)) == ("held", ["Release", "Cancel"])
    made.release.click()
    made.update(made.told[-1])
    assert (client.jobs.view("job3").state, offered(made)) == ("pending", ["Hold", "Cancel"])
    assert offered(pressed("job1")) == ["Cancel"], "a running job is not held"


def test_cancel_wants_a_second_press_soon(client, clock, pressed):
    made = pressed("job3")
    made.cancel.click()
    assert (made.cancel.description, made.told) == ("Cancel: sure?", [])
    clock.sleep(SURE + 1)
    made.cancel.click()
    assert client.jobs.view("job3").state == "pending", "the first was too long ago"
    made.cancel.click()
    assert (client.jobs.view("job3").state, made.told[-1].state) == ("cancelled", "cancelled")
    made.update(made.told[-1])
    assert made.box.comm is None, "the buttons are gone"


def test_a_refusal_stands_beside_the_buttons_and_prints(http, pressed):
    made = pressed("job3")
    http.queue.jobs["job3"] = running(name="job3", message=HOSTILE)
    made.hold.click()
    assert made.told == []
    assert made.trouble.value and made.trouble.value.isprintable()


def test_a_displayed_job_has_its_buttons_below_its_card(client, kernel, monkeypatch):
    monkeypatch.setattr(buttons, "find_spec", lambda _: object())
    job = client.get("job3")
    with capture_output() as captured:
        display(job)
        card, below = captured.outputs
        assert "application/vnd.jupyter.widget-view+json" in below.data
        live._here[0]._cards[0].buttons.hold.click()
    assert ">pending</span>" in card.data["text/html"]
    assert ">held</span>" in captured.outputs[-1].data["text/html"], "and the card shows it"


def test_a_card_tells_of_evictions_and_escapes_everything(client, http, shown):
    evicted = attempt(
        1, outcome="evicted", stop_cause="evicted", stopped_for=HOSTILE, resumption=HOSTILE,
        ended_at="2026-11-20T10:00:00.000Z",
    )  # fmt: skip
    told = ProgressView(step=1, of=2, metrics={HOSTILE[:20]: HOSTILE})
    http.queue.jobs["job3"] = running(
        2, name="job3", project=HOSTILE, priority_class=HOSTILE, warnings=[HOSTILE], evictions=1,
        attempts=[evicted], progress=told, training_job=HOSTILE,
    )  # fmt: skip
    page = shown(client.get("job3"))["text/html"]
    assert "attempt 1, 2026-11-20 10:00 UTC, evicted for" in page
    assert "<script" not in page
    assert {tag.split()[0] for tag in re.findall(r"</?([^>]*)>", page)} == {
        "div", "b", "span", "progress",
    }  # fmt: skip


def test_the_waiting_of_a_fit_ends_with_the_jobs_end_on_its_card():
    shown = []
    notebook = progress.Notebook(lambda _: None, lambda key, both: shown.append(both["text/html"]))
    notebook.seen(waiting(1))
    assert not shown, "a card begins when the job waits, or runs and reports"
    notebook.waiting(waiting(1))
    for view in (running(), ended()):
        notebook.seen(view)
    assert [re.search(r">(\w+)</span>", each).group(1) for each in shown] == [
        "pending", "running", "completed",
    ]  # fmt: skip
