"""What users hold of what they may hold, as bars."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from slotq.output.job_tables import columns
from slotq.output.submitters import last_part
from slotq_core.wire.document.views import QuotasView, UserQuotaView

WIDTH = 20
"""The cells of a bar."""
FULL, EMPTY = "█", "░"
NO_CLASS = "(no class)"


def quotas_table(view: QuotasView) -> RenderableType:
    """One line for each user, pool and class: a bar, and used of total."""
    table = columns("USER", "POOL", "CLASS", "", ">USED", ">TOTAL", leaves=("",))
    for each in view.quotas:
        table.add_row(
            last_part(each.user),
            each.pool,
            each.priority_class or NO_CLASS,
            bar(each),
            str(each.used),
            "no limit" if each.total is None else str(each.total),
        )
    if table.row_count:
        return table
    return Text("no limits, and no slots held: what the pools have is open to you")


def bar(quota: UserQuotaView) -> Text:
    """The used part of the total; none without a limit. Any use shows, and only a full one fills
    the bar."""
    if not quota.total:
        return Text("" if quota.total is None else FULL * WIDTH, style="red")
    cells = quota.used * WIDTH // quota.total
    filled = min(WIDTH, max(cells, 1 if quota.used else 0))
    style = "red" if quota.used > quota.total else "yellow" if filled == WIDTH else "green"
    return Text(FULL * filled + EMPTY * (WIDTH - filled), style=style)
