"""Quotas of the AWS account, as SageMaker's refusals name them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceQuota:
    """The quota that a refused CreateTrainingJob names. With neither an instance type nor
    `all_training`, the quota is for something else: spot instances, processing jobs …"""

    limit: int | None = None
    """The quota in instances; None: the refusal does not say."""
    instance_type: str = ""
    """The instance type whose use by training jobs the quota limits; empty: no such quota."""
    all_training: bool = False
    """Whether the quota limits all training jobs of the account together."""
