"""`slotq top`: keys, drawing at several sizes and the loop; then the program under a pty."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner

from slotq.cli.app import App
from slotq.cli.exits import ExitCode
from slotq.cli.main import cli
from slotq.cli.top.command import uninterrupted
from slotq.cli.top.draw import HELP, HINTS, Frame, lines, since
from slotq.cli.top.keyboard import named
from slotq.cli.top.loop import Top
from slotq.cli.top.scene import Mode, Scene, TopRequest, press, seen
from slotq.errors import CannotReach
from slotq_core.timestamps import from_iso
from slotq_core.wire.views.jobs import ProgressView
from tests.terminal import Terminal
from tests.unit.client.fake_queue import (
    MOMENT,
    Clock,
    FakeHttp,
    FakeQueue,
    client_of,
    job_view,
    no_connection,
    pool_view,
    running,
    served,
    waiting,
)

BACK = b"\x1b[?1049l"
"""The sequence that restores the previous screen."""
NOW = from_iso(MOMENT) + 125_000


def a_queue() -> FakeQueue:
    queue = FakeQueue(
        running(name="job1", priority=5),
        running(name="job2", pool="p4"),
        waiting(1, "needs 1 slot; pool p5 has 0 free of 4", name="job3", priority=9),
        waiting(2, "behind 1 job in its line", name="job4", priority=9),
        waiting(3, name="job5"),
        job_view("job6", "held"),
    )
    queue.pools = [pool_view("p5", used=4), pool_view("p4", used=1, slots=8, foreign=2)]
    return queue


def a_scene(**fields) -> Scene:
    queue = a_queue()
    return replace(seen(Scene(), queue.pools, [*queue.jobs.values()]), **fields)


def frame(width=80, height=24, **fields) -> Frame:
    return Frame(width=width, height=height, now=NOW, **fields)


def drawn(scene: Scene, *args, **fields) -> list[str]:
    return [line.plain for line in lines(scene, frame(*args, **fields))]


def of_two_users() -> Scene:
    """job3 belongs to Eve, the others to Ada."""
    queue = a_queue()
    eve = "arn:aws:sts::123456789012:assumed-role/lab/eve"
    queue.jobs["job3"] = queue.jobs["job3"].model_copy(update={"submitter": eve})
    return replace(seen(Scene(), queue.pools, [*queue.jobs.values()]), chosen="job3")


def test_the_user_column_is_drawn_when_there_are_several():
    shown = drawn(of_two_users())
    (title,) = [line for line in shown if line.split()[:1] == ["JOB"]]
    at = title.index("USER")
    users = {line[2:6]: line[at : at + 4].strip() for line in shown if line[2:5] == "job"}
    assert users == {f"job{n}": "eve" if n == 3 else "ada" for n in range(1, 7)}
    assert "job3 (of eve): needs 1 slot" in "\n".join(shown)
    assert not any("USER" in line or "ada" in line for line in drawn(a_scene()))


@pytest.mark.parametrize("width", [66, 74, 75, 76, 80, 100, 200])
def test_the_user_column_leaves_room_for_names(width):
    shown = drawn(of_two_users(), width)
    assert max(map(len, shown)) <= width
    assert ("USER" in "\n".join(shown)) == (width >= 75)
    assert "(of eve)" in "\n".join(shown)


def shared_scene(*projects: str) -> Scene:
    """job3 and job4 wait in vision, the others are speech's."""
    queue = a_queue()
    for name, job in queue.jobs.items():
        project = "vision" if name in {"job3", "job4"} else "speech"
        queue.jobs[name] = job.model_copy(update={"project": project})
    scene = seen(Scene(projects=projects), queue.pools, [*queue.jobs.values()])
    return replace(scene, chosen="job3")


def test_the_project_column_is_drawn_when_there_are_several():
    shown = drawn(shared_scene())
    (title,) = [line for line in shown if line.split()[:1] == ["JOB"]]
    at = title.index("PROJECT")
    projects = {line[2:6]: line[at : at + 6] for line in shown if line[2:5] == "job"}
    assert projects == {f"job{n}": "vision" if n in {3, 4} else "speech" for n in range(1, 7)}
    assert "job3 in vision: needs 1 slot" in "\n".join(shown)
    assert "PROJECT" not in "\n".join(drawn(a_scene()))


def test_lines_are_by_project_in_a_shared_queue():
    text = "\n".join(drawn(shared_scene()))
    assert "  vision  p5  priority 9" in text
    assert "  speech  p5  priority 1" in text


def test_the_head_names_the_projects_that_are_shown():
    assert "2 active, 4 waiting in vision, speech" in drawn(shared_scene("vision", "speech"))[0]


@pytest.mark.parametrize("width", [66, 76, 77, 78, 80, 100, 200])
def test_the_project_column_leaves_room_for_names(width):
    shown = drawn(shared_scene(), width)
    assert max(map(len, shown)) <= width
    assert ("PROJECT" in "\n".join(shown)) == (width >= 78)
    assert "in vision:" in "\n".join(shown)


# --- keys


def test_terminal_input_becomes_named_keys():
    assert named("\x1b[A\x1b[BcQ\r\x7f\x1b") == [
        *("up", "down", "c", "Q", "enter", "backspace", "escape"),
    ]
    assert named("\x1b[200~é\x1bOP\x1b[1;5A") == ["é", "f1"]


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        ([], "job1"),
        (["down", "j"], "job3"),
        (["down", "down", "up"], "job2"),
        (["up"], "job1"),
        (["end"], "job6"),
        (["end", "down", "home", "k"], "job1"),
        (["pagedown"], "job6"),
        (["pagedown", "pageup", "down"], "job2"),
    ],
)
def test_the_arrow_keys_select_a_job(keys, chosen):
    scene = a_scene()
    for key in keys:
        scene, wish = press(scene, key)
        assert wish is None
    assert scene.chosen == chosen


@pytest.mark.parametrize(
    ("chosen", "keys", "wish"),
    [
        ("job3", "cy", TopRequest(verb="cancel", job="job3")),
        ("job3", "h", TopRequest(verb="hold", job="job3")),
        ("job6", "h", TopRequest(verb="release", job="job6")),
        ("job1", "+", TopRequest(verb="priority", job="job1", priority=6)),
        ("job1", "=", TopRequest(verb="priority", job="job1", priority=6)),
        ("job5", "-", TopRequest(verb="priority", job="job5", priority=0)),
        ("job3", ["p", "1", "2", "enter"], TopRequest(verb="priority", job="job3", priority=12)),
        ("job3", ["p", "-", "7", "enter"], TopRequest(verb="priority", job="job3", priority=-7)),
        (
            "job3",
            ["p", *"1x", "backspace", "4", "enter"],
            TopRequest(verb="priority", job="job3", priority=4),
        ),
        ("job3", "cn", None),
        ("job3", ["c", "q"], None),
        ("job3", ["p", "5", "escape"], None),
        ("job3", ["p", "enter"], None),
        ("job3", ["p", *"1000001", "enter"], None),
        ("job3", "?c", None),
        ("job3", "z", None),
    ],
)  # fmt: skip
def test_keys_request_actions(chosen, keys, wish):
    scene, wishes = a_scene(chosen=chosen), []
    for key in keys:
        scene, asked = press(scene, key)
        wishes += [asked] if asked else []
    assert wishes == ([wish] if wish else [])
    assert scene.mode is Mode.BROWSE
    assert not scene.quits


def test_q_quits_except_in_a_question():
    assert press(a_scene(), "q")[0].quits
    assert press(a_scene(mode=Mode.HELP), "q")[0].quits
    assert not press(a_scene(mode=Mode.CANCEL), "q")[0].quits


def test_keys_without_a_job_say_so():
    scene, wish = press(Scene(), "c")
    assert (scene.said, wish, press(Scene(), "down")[0]) == ("no job is chosen", None, Scene())


def test_the_selection_follows_its_job_and_moves_on_at_its_end():
    scene = a_scene(chosen="job3")
    jobs = list(scene.jobs)
    assert seen(scene, scene.pools, jobs[::-1]).chosen == "job3"
    assert seen(scene, scene.pools, [*jobs[:2], *jobs[3:]]).chosen == "job4"
    assert seen(scene, scene.pools, []).chosen == ""


def test_a_question_is_withdrawn_when_its_job_ends():
    scene = a_scene(chosen="job3", mode=Mode.CANCEL)
    after = seen(scene, scene.pools, [job for job in scene.jobs if job.name != "job3"])
    assert (after.mode, after.said) == (Mode.BROWSE, "job3 has ended")
    assert press(after, "y")[1] is None


# --- the picture


@pytest.mark.parametrize("size", [(80, 24), (66, 15), (200, 60), (133, 15)])
@pytest.mark.parametrize("mode", list(Mode))
def test_the_picture_fills_the_screen(size, mode):
    shown = drawn(a_scene(mode=mode), *size)
    assert len(shown) == size[1]
    assert max(map(len, shown)) <= size[0]


def test_a_screen_of_80_by_24_shows_everything():
    text = "\n".join(drawn(a_scene(chosen="job3")))
    for part in ("2 active, 4 waiting", "10:32:05 UTC", "4/4 slots", "1/8 slots", "2 foreign"):
        assert part in text
    assert "priority 9" in text
    assert "2 jobs" in text
    assert "> job3" in text
    assert "job3: needs 1 slot; pool p5 has 0 free of 4" in text
    assert text.splitlines()[-1] == HINTS


def test_a_too_small_screen_says_the_least_size():
    shown = drawn(a_scene(), 65, 24)
    assert shown[0] == "slotq top needs 66×15; q quits"
    assert "needs" in drawn(a_scene(), 20, 3)[0]


def test_the_bar_shows_slots_of_jobs_and_of_others():
    def bar(**fields):
        pool = pool_view("p", **fields)
        (row,) = [line for line in drawn(Scene(pools=(pool,))) if line.startswith("p ")]
        cells = row.split()[1]
        return [cells.count(mark) for mark in "█▒░"]

    assert bar(used=0) == [0, 0, 40]
    assert bar(used=4) == [40, 0, 0]
    assert bar(used=2, foreign=1) == [20, 10, 10]
    assert bar(used=1, slots=1000) == [1, 0, 39]
    assert bar(used=999, slots=1000) == [39, 0, 1]
    assert bar(used=3, slots=0) == [40, 0, 0]
    assert bar(used=0, slots=0) == [0, 0, 40]


def test_a_pools_trouble_is_beside_its_bar():
    pools = (
        pool_view("a", state="paused"),
        pool_view("b", state="drained", used=1),
        pool_view("c", health={"errors": 1, "not_before": NOW}),
        pool_view("d", health={"learned": 2, "learned_until": NOW}),
    )
    rows = {line.split()[0]: line for line in drawn(Scene(pools=pools)) if line}
    told = {"a": "paused", "b": "draining", "c": "backs off", "d": "the account allows 2"}
    for name, said in told.items():
        assert rows[name].endswith(said)


def test_pools_and_jobs_share_the_rows():
    pools = tuple(pool_view(f"pool{n}", used=n, slots=20) for n in range(12))
    jobs = tuple(waiting(n + 1, name=f"job{n}", priority=-n) for n in range(50))
    for chosen in ("job0", "job25", "job49"):
        shown = drawn(Scene(pools=pools, jobs=jobs, chosen=chosen))
        text = "\n".join(shown)
        assert "… 7 more pools, 56 of 140 slots used" in text
        assert "… 45 more lines" in text
        assert len([line for line in shown if line.startswith(f"> {chosen}")]) == 1
        assert len(shown) == 24


def test_an_empty_queue_is_described():
    assert "no job runs or waits" in "\n".join(drawn(Scene()))


def test_questions_are_in_the_last_row():
    ask = drawn(a_scene(mode=Mode.CANCEL))
    assert ask[-2].startswith("Cancel job1, which is running? Its training job will be stopped.")
    typing = drawn(a_scene(mode=Mode.PRIORITY, typed="12"))
    assert typing[-2].startswith("Priority of job1 (now 5): 12_")


def test_help_lists_every_key():
    shown = "\n".join(drawn(a_scene(mode=Mode.HELP)))
    for key, what in HELP:
        assert key in shown
        assert what in shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (59, "59s"), (60, "1m"), (3900, "1h05"), (90_000, "1d01h")],
)
def test_ages_are_short(seconds, text):
    assert since(MOMENT, from_iso(MOMENT) + 1000 * seconds) == text


# --- the loop


class Pressed:
    """Keys pressed one after the other ("": none), then `q`. Each takes a second."""

    def __init__(self, clock, *keys):
        self.clock, self.keys = clock, list(keys)

    def read(self, timeout):
        self.clock.sleep(1)
        key = self.keys.pop(0) if self.keys else "q"
        if callable(key):
            key()
        return [key] if isinstance(key, str) and key else []


class AtOnce:
    """Runs work as soon as it begins."""

    done = True

    def __init__(self, work):
        self.work = work

    def answer(self):
        return self.work()


class Later(AtOnce):
    """Work that never ends."""

    done = False


class Paper:
    def __init__(self):
        self.shown = []

    def size(self):
        return 80, 24

    def show(self, drawn):
        self.shown.append("\n".join(line.plain for line in drawn))


def played(queue, *keys, http=None, begin=AtOnce, every=2.0, projects=()):
    clock, paper, http = Clock(), Paper(), http or FakeHttp(queue)
    top = Top(
        client_of(http),
        paper,
        Pressed(clock, *keys),
        projects=projects,
        every=every,
        clock=clock,
        now=lambda: NOW,
        begin=begin,
    )
    top.run()
    return paper, http


def test_each_action_is_done_and_reported():
    queue = a_queue()
    paper, _ = played(queue, "down", "down", "h", "", "+", "", "c", "y", "", "")
    assert queue.jobs["job3"].state == "cancelled"
    text = "\n".join(paper.shown)
    for said in ("job3: held", "job3: priority 10", "job3: cancelled"):
        assert said in text
    assert paper.shown[-1].count("job3") == 1  # the last report; the job's row has gone


def test_a_refusal_is_reported_and_the_program_continues():
    queue = a_queue()

    def ends():
        queue.jobs["job1"] = queue.jobs["job1"].model_copy(update={"state": "completed"})

    paper, _ = played(queue, ends, "h", "", "", every=60)
    assert "hold job1: job1 has ended" in "\n".join(paper.shown)


def test_the_chosen_projects_are_asked_for():
    _, http = played(a_queue(), projects=("vision", "speech"))
    (look,) = [request.url for request in http.sent if "/jobs" in request.url]
    assert parse_qs(urlsplit(look).query)["project"] == ["vision,speech"]


def test_live_jobs_are_polled():
    queue = a_queue()

    def changes():
        job = queue.jobs["job5"]
        queue.jobs["job5"] = job.model_copy(update={"priority": job.priority + 1})

    _, http = played(queue, *[changes] * 9)
    looks = [request.url for request in http.sent if "/jobs" in request.url]
    assert len(looks) == 4  # at 0, 2, 5 and 8 s: each two seconds after the last answer
    assert all("state=running" in url and "completed" not in url for url in looks)


def test_jobs_that_do_not_change_are_asked_for_more_seldom():
    _, http = played(a_queue(), *[""] * 60)
    looks = [request.url for request in http.sent if "/jobs" in request.url]
    assert 6 <= len(looks) <= 9  # after 2, 3, 4.5 … s, at most 15


def test_the_end_of_a_long_list_brings_more_of_it():
    jobs = [waiting(n, name=f"job-{n:03}") for n in range(1, 451)]
    http = FakeHttp(FakeQueue(*jobs))
    played(http.queue, "end", "", "", "end", "", "", "end", "", "", http=http)
    asked = [parse_qs(urlsplit(it.url).query)["limit"][0] for it in http.sent if "/jobs" in it.url]
    assert list(dict.fromkeys(asked)) == ["200", "400", "600"]
    assert all("places=true" in it.url for it in http.sent if "/jobs" in it.url)


def test_an_unreachable_queue_is_reported_until_it_answers():
    queue, http = a_queue(), FakeHttp(a_queue())

    def breaks():
        http.troubles = [no_connection()] * 5

    paper, _ = played(queue, breaks, *[""] * 5, http=http)
    broken = [n for n, text in enumerate(paper.shown) if "cannot reach the queue" in text]
    assert broken
    assert "as of " in paper.shown[broken[0]]
    assert "> job1" in paper.shown[broken[0]]
    assert broken[-1] < len(paper.shown) - 1


def test_an_unreachable_queue_at_the_start_is_an_error():
    http = FakeHttp(a_queue())
    http.troubles = [no_connection()] * 5
    with pytest.raises(CannotReach):
        played(a_queue(), http=http)


def test_keys_are_answered_while_the_queue_is_slow():
    paper, _ = played(a_queue(), "", "", "down", "?", "x", "down", begin=Later, every=0)
    assert "> job3" in paper.shown[-1]


# --- where it cannot be


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_top_without_a_terminal_suggests_another_command(options):
    result = CliRunner().invoke(cli, [*options, "top"], obj=App())
    assert result.exit_code == ExitCode.USAGE
    assert "slotq ls" in result.stderr
    assert "slotq watch" in result.stderr


# --- all of it


@pytest.fixture
def environment(tmp_path):
    return {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "XDG_CONFIG_HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }


def slotq_top(endpoint, environment, *options, **sizes):
    command = [sys.executable, "-m", "slotq.cli", "--endpoint", endpoint, *options, "top"]
    return Terminal(command, environment=environment, **sizes)


def test_top_runs_in_a_terminal_of_80_by_24(environment):
    queue = a_queue()
    with served(queue) as endpoint, slotq_top(endpoint, environment) as terminal:
        terminal.wait_for("> job1", "4/4 slots", "q quit")
        terminal.press("down")
        terminal.press("down")
        terminal.wait_for("> job3")
        terminal.press("h")
        terminal.wait_for("job3: held")
        terminal.press("+")
        terminal.wait_for("job3: priority 10")
        terminal.press("c")
        terminal.wait_for("Cancel job3")
        terminal.press("y")
        terminal.wait_for("job3: cancelled")
        terminal.press("?")
        terminal.wait_for("raise, lower its priority by one")
        terminal.press("x")
        terminal.wait_for("> job4")
        terminal.resize(120, 30)
        terminal.wait_for("WHY")
        terminal.press("q")
        assert terminal.ended() == ExitCode.OK
        assert BACK in terminal.written
    assert (queue.jobs["job3"].state, queue.jobs["job3"].priority) == ("cancelled", 10)


def test_top_has_colours_unless_unwanted(environment):
    with served(a_queue()) as endpoint:
        colours = []
        for options in ((), ("--no-color",)):
            with slotq_top(endpoint, environment, *options) as terminal:
                terminal.wait_for("> job1")
                buffer = terminal.screen.buffer
                colours.append({cell.fg for row in buffer.values() for cell in row.values()})
                terminal.press("q")
                assert terminal.ended() == ExitCode.OK
    assert "green" in colours[0]
    assert colours[1] == {"default"}


def test_ctrl_c_restores_the_terminal(environment):
    with served(a_queue()) as endpoint, slotq_top(endpoint, environment) as terminal:
        terminal.wait_for("> job1")
        terminal.press("\x1a")  # Ctrl-Z does nothing
        terminal.press("\x03")
        assert terminal.ended() == ExitCode.INTERRUPTED
        assert BACK in terminal.written


def test_ctrl_c_does_not_interrupt_drawing():
    drawn: list[str] = []
    before = signal.getsignal(signal.SIGINT)

    def draw() -> None:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            drawn.append("all of it")
        drawn.append("more")

    with pytest.raises(KeyboardInterrupt):
        draw()
    assert drawn == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_missing_queue_is_reported_after_the_screen_is_restored(environment):
    with slotq_top("http://127.0.0.1:9/prod", environment) as terminal:
        assert terminal.ended() == ExitCode.UNREACHABLE
        assert "cannot reach the queue" in terminal.text.replace("\n", "")


def test_a_running_job_shows_how_far_it_is():
    progress = ProgressView(step=4200, of=10_000, at=MOMENT, eta_seconds=3900.0)
    queue = a_queue()
    jobs = [queue.jobs["job1"].model_copy(update={"progress": progress}), queue.jobs["job3"]]
    for width in (66, 160):
        shown = drawn(seen(Scene(), queue.pools, jobs), width, 20)
        assert any("42 %" in line and "1h05 left" in line for line in shown)
        assert max(map(len, shown)) <= width
