"""Short names for the submitters of jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_BETWEEN = re.compile("[/:]")


def last_part(arn: str) -> str:
    """`ada` of `arn:aws:iam::123456789012:user/ada`; the session's name of an assumed role."""
    return _parts(arn)[-1]


def short_names(arns: Iterable[str]) -> Mapping[str, str]:
    """The shortest endings, by ARN, that tell these ARNs apart; all have equally many parts."""
    parts = {arn: _parts(arn) for arn in arns}
    for number in range(1, max(map(len, parts.values()), default=1)):
        short = {arn: "/".join(its[-number:]) for arn, its in parts.items()}
        if len(set(short.values())) == len(short):
            return short
    return {arn: arn for arn in parts}


def _parts(arn: str) -> list[str]:
    return _BETWEEN.split(arn)
