"""Why a job waits: a closed set of typed reasons, each with its numbers. All that there are.

The policy produces them, `wire` carries them, people read `sentence`. Floor 1, because both the
policy and the client speak of them.
"""

from __future__ import annotations

from slotq_core.model.reasons.base import Number, Reason, codes, units
from slotq_core.model.reasons.gang_incomplete import EndangersItsGang, GangBlocked, GangIncomplete
from slotq_core.model.reasons.limits import (
    ClassNotAllowed,
    JobLimitReached,
    LimitReached,
    QuotaForFixed,
    SweepLimit,
    UserLimitReached,
)
from slotq_core.model.reasons.rights_missing import RightsMissing
from slotq_core.model.reasons.room import (
    HeldForOthers,
    LowerRankedProtected,
    NeedsSeveralPools,
    NoFreeSlots,
    PoolsTooSmall,
    Reserved,
    ShareUsed,
    SlotsComing,
    TurnComes,
)
from slotq_core.model.reasons.unavailable import PoolBacksOff, PoolClosed, PoolIsProbed, PoolNotOpen
from slotq_core.model.reasons.waits_for_others import (
    BackingOff,
    BehindInLine,
    NextPass,
    TriesAgain,
    WaitsForJobs,
)

__all__ = [
    "BackingOff",
    "BehindInLine",
    "ClassNotAllowed",
    "EndangersItsGang",
    "GangBlocked",
    "GangIncomplete",
    "HeldForOthers",
    "JobLimitReached",
    "LimitReached",
    "LowerRankedProtected",
    "NeedsSeveralPools",
    "NextPass",
    "NoFreeSlots",
    "Number",
    "PoolBacksOff",
    "PoolClosed",
    "PoolIsProbed",
    "PoolNotOpen",
    "PoolsTooSmall",
    "QuotaForFixed",
    "Reason",
    "Reserved",
    "RightsMissing",
    "ShareUsed",
    "SlotsComing",
    "SweepLimit",
    "TriesAgain",
    "TurnComes",
    "UserLimitReached",
    "WaitsForJobs",
    "codes",
    "units",
]
