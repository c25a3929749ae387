"""Why a job waits: a closed set of typed reasons, each with its numbers.

The policy produces them, `wire` carries them, people read `sentence`.

    reason            what every reason has
    room              no room: what the job needs and what its pools have
    hours             its pools are not open, or not for as long as it may run
    unavailable       its pools take nothing now, or a right is missing
    limits            a quota, a limit, a budget, a concurrency setting or a rule of the project
    gang_incomplete   its gang cannot start, or runs without it
    stalled           a running attempt reports nothing: why it is warned of, or stopped
    waits_for_others  others come first, or its time has not come
    whole_instance    a job that asks for GPUs of a node takes whole instances
    outlook           what a waiting job could have, and when
"""

from __future__ import annotations

from slotq_core.model.reasons.gang_incomplete import (
    EndangersItsGang,
    GangBlocked,
    GangIncomplete,
    Lacks,
    NotYetIn,
)
from slotq_core.model.reasons.hours import EndsTooLate, PoolNotYetOpen, SlotsSetAside
from slotq_core.model.reasons.limits import (
    BudgetSpent,
    ClassForbidden,
    HoldingLimit,
    JobLimitReached,
    QuotaExceeded,
    StartForbidden,
    SweepLimit,
    UserLimitReached,
    WaitsForApproval,
)
from slotq_core.model.reasons.reason import Number, Reason, codes, units
from slotq_core.model.reasons.room import (
    HeldForOthers,
    LowerRankedProtected,
    NeedsSeveralPools,
    NodeComing,
    NoFreeSlots,
    NoGpusFree,
    PoolsTooSmall,
    Reserved,
    SameUser,
    ShareUsed,
    SlotsComing,
    TurnComes,
)
from slotq_core.model.reasons.unavailable import (
    PoolBacksOff,
    PoolClosed,
    PoolIsProbed,
    PoolNotOpen,
    QuotaRefused,
    RightsMissing,
)
from slotq_core.model.reasons.waits_for_others import (
    BackingOff,
    BehindInLine,
    GroupNotWhole,
    NextPass,
    TriesAgain,
    WaitsForJobs,
)

__all__ = [
    "BackingOff",
    "BehindInLine",
    "BudgetSpent",
    "ClassForbidden",
    "EndangersItsGang",
    "EndsTooLate",
    "GangBlocked",
    "GangIncomplete",
    "GroupNotWhole",
    "HeldForOthers",
    "HoldingLimit",
    "JobLimitReached",
    "Lacks",
    "LowerRankedProtected",
    "NeedsSeveralPools",
    "NextPass",
    "NoFreeSlots",
    "NoGpusFree",
    "NodeComing",
    "NotYetIn",
    "Number",
    "PoolBacksOff",
    "PoolClosed",
    "PoolIsProbed",
    "PoolNotOpen",
    "PoolNotYetOpen",
    "PoolsTooSmall",
    "QuotaExceeded",
    "QuotaRefused",
    "Reason",
    "Reserved",
    "RightsMissing",
    "SameUser",
    "ShareUsed",
    "SlotsComing",
    "SlotsSetAside",
    "StartForbidden",
    "SweepLimit",
    "TriesAgain",
    "TurnComes",
    "UserLimitReached",
    "WaitsForApproval",
    "WaitsForJobs",
    "codes",
    "units",
]
