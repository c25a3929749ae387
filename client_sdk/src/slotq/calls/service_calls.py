"""`queue.service`: the queue itself, and how it sees the caller."""

from __future__ import annotations

from slotq.errors import ExaminedLately
from slotq.transport.connection import ConnectedCalls
from slotq.transport.scenario_pages import whole_scenario
from slotq_core.wire.scenario.views import ScenarioView
from slotq_core.wire.views.about import AboutView, DoctorView, FindingView, MeView


class ServiceCalls(ConnectedCalls):
    """The queue itself: its release, its callers, its health, its snapshot."""

    def about(self) -> AboutView:
        """The queue's release, and whom it takes the caller for."""
        return self._read(AboutView, "GET", "/version")

    def me(self) -> MeView:
        """The person behind the caller, and how the queue decided it."""
        return self._read(MeView, "GET", "/me")

    def doctor(self, *, fix: bool = False) -> list[FindingView]:
        """Everything that the queue keeps and that disagrees with itself or with SageMaker; mended
        where `fix` says so and where one look suffices. For operators; where somebody has just
        asked, it says so and waits its turn."""
        method = "POST" if fix else "GET"
        return self._patiently(
            lambda: self._read(DoctorView, method, "/doctor").findings, ExaminedLately
        )

    def scenario(self) -> ScenarioView:
        """The whole queue as the next pass decides on it, for simulations (`slotq whatif`). Jobs
        that the caller may not see bear stand-in names.

        A long queue has several pages, all of one moment. Where the queue changes too fast for
        that, the first page alone is returned; its `left_out` says how many jobs are missing.
        """
        return whole_scenario(self._scenario_page)

    def _scenario_page(self, following: str | None) -> ScenarioView:
        query = None if following is None else {"next": following}
        return self._read(ScenarioView, "GET", "/scenario", query=query)
