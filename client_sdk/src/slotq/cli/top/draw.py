"""Draw a scene as lines of text that fill the screen exactly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from slotq.cli.top.scene import Mode, Scene
from slotq.jobs.follow import place_text
from slotq.jobs.progress_bar import bar, duration
from slotq.output.job_tables import COLORS, last_part, short_names, why
from slotq.output.pool_tables import STATE_STYLES, pool_state
from slotq_core.model.jobs import ACTIVE_STATES, WAITING_STATES
from slotq_core.model.pools import PoolState
from slotq_core.timestamps import from_iso

if TYPE_CHECKING:
    from slotq_core.wire.views.jobs import JobView
    from slotq_core.wire.views.pools import PoolView

LEAST_WIDTH, LEAST_HEIGHT = 66, 15
"""Smaller screens show only that they are too small."""
MOST_POOLS = 6
LEAST_LINES = 3
"""Minimum rows for lines, if there are as many lines."""
LEAST_JOBS = 4
"""Minimum rows for jobs."""
MOST_BAR = 40
BESIDE_THE_NAME = 54
"""Columns of a job's row outside the name."""
MOST_USER = 12
MOST_PROJECT = 12
LEAST_NAME = 16
"""Minimum columns for a job's name; in narrower rows only the foot shows project and user."""
LEAST_WHY = 20
"""Minimum columns for the reason; in narrower rows only the foot shows the reason."""
HINTS = "q quit  ? help  ↑↓ choose  c cancel  h hold/release  + - priority  p set it"
HELP = (
    ("↑ ↓ k j", "choose the job above, below"),
    ("PgUp PgDn", "ten jobs further up, down"),
    ("Home End", "the first, the last job"),
    ("c", "cancel the chosen job (after a question)"),
    ("h", "hold it, so that it does not start; or release it"),
    ("+ -", "raise, lower its priority by one"),
    ("p", "type its priority"),
    ("?", "this page; any key goes back"),
    ("q", "quit (so does Ctrl-C); the queue goes on"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """What is drawn besides the scene."""

    width: int
    height: int
    now: int
    """Milliseconds since the epoch."""
    every: float = 2.0
    """Seconds between two looks at the queue."""
    trouble: str = ""
    """Why the last look failed, and since when the display is out of date; empty if it worked."""


def lines(scene: Scene, frame: Frame) -> list[Text]:
    """The lines of the screen, as many as the frame is high."""
    if frame.width < LEAST_WIDTH or frame.height < LEAST_HEIGHT:
        small = f"slotq top needs {LEAST_WIDTH}×{LEAST_HEIGHT}; q quits"
        return _fitted([Text(small)], [], frame)
    if scene.mode is Mode.HELP:
        keys = [Text.assemble((f"  {key:12}", "bold"), what) for key, what in HELP]
        return _fitted([Text("slotq top", "bold"), Text(), *keys], [], frame)
    foot = [*_foot(scene, frame), _hints(scene)]
    pools, waiting = _pools(scene.pools, frame), _waiting(scene, frame)
    rest = frame.height - len(pools) - len(waiting) - len(foot) - 2  # less the head and the title
    gap = [Text()] if rest - len(scene.jobs) >= 3 else []
    top = [_head(scene, frame), *gap, *pools, *gap, *waiting, *(gap if waiting else [])]
    room = max(LEAST_JOBS, frame.height - len(top) - len(foot) - 1)
    top = top[: frame.height - len(foot) - 1 - room]
    return _fitted([*top, *_jobs(scene, frame, room)], foot, frame)


def _fitted(above: Sequence[Text], below: Sequence[Text], frame: Frame) -> list[Text]:
    gap = max(0, frame.height - len(above) - len(below))
    found = [*above, *[Text() for _ in range(gap)], *below][: frame.height]
    for line in found:
        line.no_wrap = True
        line.truncate(frame.width, overflow="ellipsis")
    return found


def _head(scene: Scene, frame: Frame) -> Text:
    running = sum(job.state in ACTIVE_STATES for job in scene.jobs)
    waiting = len(scene.jobs) - running
    among = f" in {', '.join(scene.projects)}" if scene.projects else ""
    left = f"slotq top  {running} active, {waiting} waiting{among}"
    right = f"{_clock(frame.now)} UTC, every {frame.every:g} s"
    return Text(left + right.rjust(frame.width - len(left)), "bold")


def _pools(pools: Sequence[PoolView], frame: Frame) -> list[Text]:
    shown = pools if len(pools) <= MOST_POOLS else pools[: MOST_POOLS - 1]
    width = max([len(pool.name) for pool in shown], default=0)
    rows = [_pool(pool, min(width, 20), frame.width) for pool in shown]
    left = pools[len(shown) :]
    if left:
        used, size = (sum(amounts["slots"] for amounts in part) for part in _use(left))
        rows.append(Text(f"… {len(left)} more pools, {used} of {size} slots used", "dim"))
    return rows


def _use(pools: Iterable[PoolView]) -> tuple[list[dict[str, int]], list[dict[str, int]]]:
    return [pool.used for pool in pools], [pool.capacity for pool in pools]


def _pool(pool: PoolView, name_width: int, width: int) -> Text:
    """A pool's row, such as `p5  ███████▒▒░░░  6/8 slots  1 foreign, paused`."""
    name = pool.name if len(pool.name) <= name_width else pool.name[: name_width - 1] + "…"
    capacity, used, foreign = (
        amounts["slots"] for amounts in (pool.capacity, pool.used, pool.foreign)
    )
    text = Text(f"{name:{name_width}} ")
    cells = max(10, min(MOST_BAR, width - name_width - 36))
    for mark, style, amount in _bar(used, foreign, capacity, cells):
        text.append(mark * amount, style)
    text.append(f" {used:>3}/{capacity} slots")
    said = [f"{foreign} foreign"] if foreign else []
    if pool.settings.state != PoolState.ACTIVE:
        said.append(pool_state(pool))
    if pool.health.errors:
        said.append("backs off" if pool.health.not_before else "probed")
    elif pool.health.learned is not None and not foreign and pool.size["slots"] < capacity:
        said.append(f"the account allows {pool.health.learned}")
    if pool.health.missing_rights:
        said.append("a right is missing")
    style = STATE_STYLES.get(PoolState(pool.settings.state), "") if said else ""
    return text.append(f"  {', '.join(said)}", style if style != "green" else "yellow")


def _bar(used: int, foreign: int, capacity: int, cells: int) -> list[tuple[str, str, int]]:
    """Marks with style and number: capacity used by jobs, used by others, and free. Used capacity
    gets at least one cell while there is room."""
    whole = max(capacity, used + foreign, 1)
    full = min(cells, -(-used * cells // whole))
    others = min(cells - full, -(-foreign * cells // whole))
    free = cells - full - others
    if not free and used + foreign < capacity and full > 1:
        full, free = full - 1, 1
    style = "green" if used <= capacity else "red"
    return [("█", style, full), ("▒", "magenta", others), ("░", "dim", free)]


def _waiting(scene: Scene, frame: Frame) -> list[Text]:
    """The lines: waiting jobs with the same pools and the same priority and, in a shared queue, of
    the same project."""
    groups: dict[tuple[str, str, int], list[JobView]] = defaultdict(list)
    for job in scene.jobs:
        if job.state in WAITING_STATES:
            groups[job.project, ",".join(job.pools), job.priority].append(job)
    if not groups:
        return []
    most = max(LEAST_LINES, frame.height // 4)
    shown = list(groups.items())[: most if len(groups) <= most else most - 1]
    width = min(24, max(len(pools) for (_, pools, _), _ in shown))
    of = min(MOST_PROJECT, max(len(project) for (project, _, _), _ in shown))
    rows = []
    for (project, pools, priority), jobs in shown:
        project_column = f"{_cut(project, of):{of}}  " if of and scene.is_shared else ""
        rows.append(_line(f"{project_column}{_cut(pools, width):{width}}", priority, jobs, frame))
    if left := len(groups) - len(shown):
        rows.append(Text(f"  … {left} more lines", "dim"))
    return [Text("LINES", "bold"), *rows]


def _line(named: str, priority: int, waiting: list[JobView], frame: Frame) -> Text:
    slots = sum(job.demand.get("slots", 0) for job in waiting)
    jobs, held = _number(len(waiting), "job"), _number(slots, "slot")
    first = f"first {waiting[0].name}, {since(waiting[0].entry_time, frame.now)}"
    return Text(f"  {named}  priority {priority:<8} {jobs:>9}, {held}, {first}")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Columns:
    """The widths of the columns of jobs, and the names of their submitters."""

    name: int
    project: int
    """0: all jobs have the same project, or there is no room."""
    user: int
    """0: all jobs have the same user, or there is no room."""
    why: bool
    users: Mapping[str, str]


def _columns(scene: Scene, frame: Frame) -> _Columns:
    users = short_names(job.submitter for job in scene.jobs)
    user = min(MOST_USER, max(map(len, ["USER", *users.values()])))
    left = frame.width - BESIDE_THE_NAME
    project = min(MOST_PROJECT, max(map(len, ["PROJECT", *(job.project for job in scene.jobs)])))
    if not scene.is_shared or left - project - 1 < LEAST_NAME:
        project = 0
    else:
        left -= project + 1
    if len(users) < 2 or left - user - 1 < LEAST_NAME:
        user = 0
    else:
        left -= user + 1
    name = min(40, left)
    return _Columns(name=name, project=project, user=user, why=left - name > LEAST_WHY, users=users)


def _jobs(scene: Scene, frame: Frame, room: int) -> list[Text]:
    """A title and at most `room` jobs around the chosen job."""
    columns = _columns(scene, frame)
    headings = f" {'PROJECT':{columns.project}}" if columns.project else ""
    headings += f" {'USER':{columns.user}}" if columns.user else ""
    title = f"  {'JOB':{columns.name}}{headings} {'STATE':9} {'PRIO':>7} {'PLACE':>5} {'POOL':12}"
    why = "     WHY" if columns.why else ""
    rows = [Text(f"{title} {'SLOTS':>5}  FOR{why}", "bold")]
    if not scene.jobs:
        return [*rows, Text("  no job runs or waits", "dim")]
    start = max(0, min(scene.at - room // 2, len(scene.jobs) - room))
    shown = scene.jobs[start : start + room]
    return [*rows, *[_job(job, frame, columns, chosen=job.name == scene.chosen) for job in shown]]


def _job(job: JobView, frame: Frame, columns: _Columns, *, chosen: bool) -> Text:
    text = Text("> " if chosen else "  ", "bold reverse" if chosen else "")
    text.append(f"{_cut(job.name, columns.name):{columns.name}} ")
    if columns.project:
        text.append(f"{_cut(job.project, columns.project):{columns.project}} ")
    if columns.user:
        text.append(f"{_cut(columns.users[job.submitter], columns.user):{columns.user}} ")
    text.append(f"{job.state:9}", COLORS.get(job.state, ""))
    place = place_text(job)
    pool = _cut(job.pool or ",".join(job.pools), 12)
    began = job.changed_at if job.state in ACTIVE_STATES else job.entry_time
    text.append(f" {job.priority:>7} {place:>5} {pool:12} {job.demand.get('slots', 0):>5}")
    text.append(f"  {since(began, frame.now):6}")
    return text.append(f"  {_how(job, 40)}") if columns.why else text


def _foot(scene: Scene, frame: Frame) -> list[Text]:
    """Trouble, a question, or the result of the last request; else why the chosen job waits."""
    if frame.trouble:
        return [Text(frame.trouble, "bold red")]
    job = scene.job
    if scene.mode is Mode.CANCEL and job:
        stops = " Its training job will be stopped." if job.state in ACTIVE_STATES else ""
        return [Text(f"Cancel {job.name}, which is {job.state}?{stops}  y: yes, any other key: no")]
    if scene.mode is Mode.PRIORITY and job:
        now = f"Priority of {job.name} (now {job.priority}): {scene.typed}_"
        return [Text(f"{now}   Enter: set, Esc: leave it")]
    if scene.said:
        return [Text(scene.said, "bold red" if scene.failed else "bold")]
    if job is None:
        return [Text("")]
    several = len({job.submitter for job in scene.jobs}) > 1
    owner = f" (of {last_part(job.submitter)})" if several else ""
    owner += f" in {job.project}" if scene.is_shared and job.project else ""
    room = max(20, frame.width - len(f"{job.name}{owner}: "))
    return [Text(f"{job.name}{owner}: {_how(job, room) or job.state}")]


def _how(job: JobView, width: int) -> str:
    """How far a running job is, if it says; else why the job waits."""
    return bar(job.progress, width) if job.progress else why(job)


def _hints(scene: Scene) -> Text:
    return Text("" if scene.mode in {Mode.CANCEL, Mode.PRIORITY} else HINTS, "dim")


def since(moment: str, now: int) -> str:
    """The time from `moment` to `now` in few characters."""
    return duration(max(0, now - from_iso(moment)) / 1000)


def _clock(now: int) -> str:
    seconds = now // 1000 % 86400
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _number(amount: int, what: str) -> str:
    return f"{amount} {what}" if amount == 1 else f"{amount} {what}s"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
