"""What every model of the API is derived from, and the version of their JSON."""

from __future__ import annotations

import pydantic
from pydantic import ConfigDict

VERSION = 1


class BaseModel(pydantic.BaseModel):
    """Built with its first use, not at import: a cold start answers one request, with few of
    them."""

    model_config = ConfigDict(defer_build=True)
