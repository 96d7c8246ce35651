"""Names like the one that was asked for: pods, groups and Volcano Jobs, and nothing of another kind."""

from __future__ import annotations

from projections.cache.state import Cache
from vcledger.why_names import near_names


def test_jobs_are_suggested_and_other_kinds_are_not() -> None:
    cache = Cache()
    cache.positions.update({("VolcanoJob", "default/train"): 4, ("Queue", "default/trail"): 5})
    assert near_names(cache, "default", "trian") == ["default/train"]


def test_the_same_name_in_another_namespace_comes_first_then_what_begins_so() -> None:
    cache = Cache()
    cache.positions.update({("VolcanoJob", key): 1 for key in ("default/train-2", "other/train", "default/brain")})
    assert near_names(cache, "default", "train") == ["other/train", "default/train-2", "default/brain"]
