"""The table: which figures, and how differences from the base are written."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from vcledger.replay.engine import Counts, Divergence, ReplayResult, Side, Usage, Wait
from vcledger.replay.sidebyside import rows


@dataclass(frozen=True)
class Made:
    """Results, and the cells of a figure in their table."""

    results: list[ReplayResult]
    bases: list[int]
    table: dict[str, tuple[str, tuple[str, ...]]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "table", {row.figure: (row.recorded, row.cells) for row in rows(self.results, self.bases)}
        )


def result(**fields: object) -> ReplayResult:
    return ReplayResult(mode="free", name="", cluster="c", first=0, last=9, seed=1, **fields)  # type: ignore[arg-type]


def test_a_variant_tells_its_difference_from_the_base() -> None:
    base = result(
        pods=10,
        placed=6,
        pending=4,
        placed_recorded=5,
        waits={"": Wait(6, 1.25, 9, 120)},
        waits_recorded={"": Wait(5, 1, 2, 3)},
        usage={"cpu": Usage(0.5, 1.0)},
    )
    more = result(
        pods=10,
        placed=9,
        pending=1,
        placed_recorded=5,
        waits={"": Wait(9, 1.25, 4, 60)},
        waits_recorded={"": Wait(5, 1, 2, 3)},
        usage={"cpu": Usage(0.75, 1.0)},
        evictions=2,
        divergence=Divergence(17, "default/a", "placed", Side(), Side("n1")),
    )
    table = Made([base, more], [0, 0]).table
    assert table["placed"] == ("5", ("6", "9 (+3)"))
    assert table["pending at the end"] == ("0", ("4", "1 (-3)"))
    assert table["wait p50"] == ("1.0s", ("1.2s", "1.2s"))
    assert table["wait p95"] == ("2.0s", ("9.0s", "4.0s (-5.0s)"))
    assert table["wait max"] == ("3.0s", ("2m", "1m (-1m)"))
    assert table["cpu in use, mean"] == ("-", ("50.0%", "75.0% (+25.0%)"))
    assert table["evictions"] == ("0", ("0", "2 (+2)"))
    assert table["first divergence"] == ("-", ("none", "position 17"))
    assert "gangs broken" not in table
    assert "evicted in both" not in table


def test_what_a_shadow_does_not_know_is_a_dash_and_the_record_stands_beside_it() -> None:
    of_record = {
        "pending_recorded": 18,
        "makespan_recorded_seconds": 40.0,
        "evictions_recorded": 2,
        "gangs_broken_recorded": 1,
    }
    shadows = [replace(result(placed=25, **of_record), mode="shadow") for _ in range(2)]
    table = Made(shadows, [0, 1]).table
    assert table["placed"][1] == ("25", "25")
    assert table["pending at the end"] == ("18", ("-", "-"))
    assert table["evictions"] == ("2", ("0", "0"))
    assert table["gangs broken"] == ("1", ("-", "-"))
    assert "makespan" not in table, "the record's is known to nobody in a shadow"


def test_waits_by_queue_where_there_are_several() -> None:
    one = result(waits={"": Wait(2, 1, 1, 1), "a": Wait(1, 1, 1, 1)})
    assert "wait p95, queue a" not in Made([one], [0]).table
    two = result(waits={"": Wait(3, 1, 1, 1), "b": Wait(1, 2, 2, 2), "a": Wait(1, 1, 1, 1)})
    table = Made([one, two], [0, 0]).table
    assert table["wait p95, queue b"] == ("-", ("-", "2.0s"))
    assert list(table).index("wait p95, queue a") < list(table).index("wait p95, queue b")


def test_traces_are_compared_with_their_own_base() -> None:
    results = [
        replace(result(placed=placed, placed_recorded=recorded), started=recorded)
        for placed, recorded in ((1, 1), (2, 1), (8, 9), (7, 9))
    ]
    assert Made(results, [0, 0, 2, 2]).table["placed"] == ("1 / 9", ("1", "2 (+1)", "8", "7 (-1)"))


def test_how_pods_compare_with_the_record() -> None:
    table = Made([result(counts=Counts(same_node=3, other_node=2, infeasible=1, only_here=4, only_there=5))], [0]).table
    assert [table[figure][1] for figure in list(table)[3:8]] == [("3",), ("2",), ("1",), ("4",), ("5",)]


def test_the_records_of_several_traces_stand_one_after_the_other() -> None:
    first, same = (
        result(placed_recorded=25, pending_recorded=1),
        result(placed_recorded=25, pending_recorded=1, placed=3),
    )
    other = replace(result(placed_recorded=30, pending_recorded=1), started=7)
    table = Made([first, same, other], [0, 1, 2]).table
    assert table["placed"][0] == "25 / 30"
    assert table["pending at the end"][0] == "1"
    many = [replace(result(placed_recorded=number), started=number) for number in range(5)]
    assert Made(many, list(range(5))).table["placed"][0] == "-"
