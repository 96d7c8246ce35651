"""The table of projections: every fold that snapshots are kept of, named explicitly.

Owns this table. Must not know the log. Called by `vcledger.verify` and whoever makes snapshots.
"""

from __future__ import annotations

from typing import Any

from projections.base import Projection
from projections.cache.models import MODELS
from projections.cache.projection import CacheProjection

PROJECTIONS: tuple[Projection[Any], ...] = tuple(CacheProjection(name) for name in MODELS)
"""Every projection under its default options."""


def find(name: str, version: int) -> Projection[Any] | None:
    """The projection of that name and version; None where this program has none, so that its snapshots are void."""
    for projection in PROJECTIONS:
        if projection.name == name and projection.version == version:
            return projection
    return None


__all__ = ["PROJECTIONS", "find"]
