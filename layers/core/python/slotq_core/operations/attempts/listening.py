"""Reports of training scripts that decide something: a stall, or the harm of an eviction.

They are read once a tick, in pools that ask for it (`stall_after`, `read_reports`) and of members
of groups with a heartbeat, at most `MOST_READ` at a time. What a report says is kept only where it
changes a decision, so that scripts cost reads, not writes. It causes no pass: the tick's own pass
finds it.
"""

from __future__ import annotations

MOST_READ = 240
"""Reports read in one tick. With more such jobs each gets its turn, a minute later or several."""
_MINUTE = 60_000
