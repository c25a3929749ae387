"""Each submitter has an equal part of a tick, and each token its turn."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slotq_core.model.notices import CallbackKind
from slotq_core.ports.callbacks import TOGETHER, KeptCallback
from slotq_core.storage.callback_turns import REPLACED, noted, pages, turn


def kept(submitter: int, job: int) -> KeptCallback:
    return KeptCallback(
        job=f"job{job}",
        entered=1,
        submitter=f"{submitter:04x}",
        kind=CallbackKind.TASK,
        token="token",
        token_id="hash",
    )


@given(
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=8),
    replaced=st.integers(0, 20),
    limit=st.integers(12, 60),
    looks=st.integers(60, 100),
)
def test_a_part_is_equal_and_none_waits_longer_than_its_own_number(
    sizes: list[int], replaced: int, limit: int, looks: int
) -> None:
    """`looks`: the percentage that a tick has time for, beside the first few."""
    tokens = [kept(who, job) for who, size in enumerate(sizes) for job in range(size)]
    old = [replace(kept(0, job), superseded=True) for job in range(replaced)]
    places = {one.place: one for one in (*tokens, *old)}
    part = limit // len(sizes)
    behind: dict[str, str] = {}
    waited = dict.fromkeys(places, 0)
    for _ in range(25):
        found = turn(pages(sorted(places)), behind, limit=limit)
        newest = [place for place in found.places if not places[place].superseded]
        assert len({*found.places}) == len(found.places)
        assert len(newest) == min(limit, len(tokens))
        assert len(found.places) - len(newest) <= limit // REPLACED
        for who, size in enumerate(sizes):
            mine = [place for place in newest if place.startswith(f"{who:04x}#")]
            assert len(mine) >= min(size, part)
        if looks == 100:
            assert found.more or len(found.places) == len(places)
        seen = found.places[: max(TOGETHER, len(found.places) * looks // 100)]
        behind = noted(behind, [places[place] for place in seen])
        waited = {place: 0 if place in seen else ticks + 1 for place, ticks in waited.items()}
    for place, ticks in waited.items():
        if not places[place].superseded and looks == 100:
            size = sizes[int(place.partition("#")[0], 16)]
            assert ticks < -(-size // part)
        assert ticks < 25, "each has its turn"
