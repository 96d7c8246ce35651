"""How gaps of the record are put together and told."""

from __future__ import annotations

import msgspec

from projections.diagnosis.coverage import kinds_needed
from projections.diagnosis.explain import explain
from projections.diagnosis.gaps import Gap, outages, tell
from projections.diagnosis.text import lines, plain
from tests.unit.diagnosis.build import pod, uses
from tests.unit.diagnosis.test_explain import GROUPED, case


def gap(
    kind: str, start: int | None, end: int | None, *, inside: bool = False, reason: str = "off", **more: int
) -> Gap:
    """A gap from second `start` to second `end` of an hour."""

    def text(second: int | None) -> str | None:
        return f"2026-01-01T00:00:{second:02}.5Z" if second is not None else None

    def micros(second: int | None) -> int | None:
        return second * 1_000_000 if second is not None else None

    return Gap(
        kind=kind,
        from_time=text(start),
        to_time=text(end),
        inside=inside,
        reason=reason,
        from_micros=micros(start),
        to_micros=micros(end),
        **more,
    )


def test_gaps_that_end_together_are_one_outage() -> None:
    found = outages([gap("Node", 1, 31), gap("Pod", 9, 30), gap("Pod", 3, 5), gap("Queue", 1, 36)])
    assert [[one.kind for one in outage] for outage in found] == [["Pod"], ["Pod", "Node"], ["Queue"]]
    assert len(outages([gap("Pod", 1, 30), gap("Node", 1, 30, inside=True)])) == 2


def test_an_outage_is_told_in_one_line() -> None:
    now = "2026-01-01T00:00:20Z"
    many = [gap(kind, 9, 30, inside=True) for kind in ("Pod", "Node", "PodGroup", "Queue", "Event")]
    assert tell(many, now) == (
        "Pod, Node, PodGroup and 2 more: not recorded 00:00:09 to 00:00:30; this moment lies inside it"
    )
    assert tell([gap("Pod", 9, 30)], "2026-01-02T00:00:00Z") == (
        "Pod: not recorded 2026-01-01T00:00:09Z to 2026-01-01T00:00:30Z; then nothing was found changed"
    )
    assert tell([gap("Pod", 9, 30, added=1), gap("Node", 9, 30, deleted=2, added=1)], now).endswith(
        "then 2 new, 2 gone"
    )
    assert tell([gap("Pod", None, None, inside=True)], now).startswith("Pod: not recorded since the beginning;")


def test_the_answer_marks_gaps_those_around_the_moment_first() -> None:
    before = [gap("Pod", second, second + 3) for second in (1, 6, 11)]
    answer = explain(case(pod(**GROUPED), gaps=[*before, gap("Pod", 20, 40, inside=True)]))
    found = [text for role, text in lines(answer) if role == "gap"]
    assert "this moment lies inside it" in found[0]
    assert found[1].startswith("Pod: not recorded 00:00:06")
    assert found[-1] == "1 earlier gap more (--full)"
    assert len([line for line in lines(answer, full=True) if line.role == "gap"]) == 4
    assert msgspec.to_builtins(answer)["gaps"][0].items() >= {"kind": "Pod", "from": "2026-01-01T00:00:01.5Z"}.items()


def test_kinds_that_the_verdict_rests_on_and_that_were_never_looked_at() -> None:
    assert kinds_needed(case(pod(**GROUPED))) == ["Node", "PodGroup", "Queue"]
    assert kinds_needed(case(pod(**uses("c"), **GROUPED)))[3:] == [
        "PersistentVolumeClaim",
        "PersistentVolume",
        "StorageClass",
    ]
    assert kinds_needed(case(pod(nodeName="n1", status={"phase": "Running"}, **GROUPED))) == []
    text = plain(lines(explain(case(pod(**uses("c"), **GROUPED), unwatched=["PersistentVolume"]))))
    assert "Record        the record has no PersistentVolume: no list or watch of them" in text
