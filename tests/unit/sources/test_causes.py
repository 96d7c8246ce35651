"""A bind's outcome names its request, wherever the batches of the import were cut."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eventstore.testing import observation
from eventstore.types import KEYED, NewEvent
from vcledger.ledger import Ledger
from vcledger.sources import ImportOptions, import_paths
from vcledger.sources import causes as causing
from vcledger.sources.causes import Causes


def _line(number: int, code: int) -> str:
    second = f"2026-03-01T10:00:{number % 60:02d}"
    pod = {"resource": "pods", "subresource": "binding", "namespace": "ns", "name": f"p-{number}", "uid": f"u-{number}"}
    return json.dumps(
        {
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Request", "auditID": f"a-{number}",
            "stage": "ResponseComplete", "verb": "create", "requestURI": f"/p-{number}/binding",
            "objectRef": pod, "responseStatus": {"code": code}, "requestObject": {"target": {"name": "n"}},
            "requestReceivedTimestamp": f"{second}.100000Z", "stageTimestamp": f"{second}.900000Z",
        }
    )  # fmt: skip


@pytest.mark.parametrize("batch", [1, 2, 3, 7, 4_000])
def test_outcomes_name_their_requests(batch: int, tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    file.write_text("\n".join(_line(number, (201, 409, 500)[number % 3]) for number in range(60)))
    with Ledger.open(str(tmp_path / "ledger.db"), create=True) as ledger:
        for _ in range(2):
            import_paths(ledger, [file], cluster="c", options=ImportOptions(batch=batch, snapshots=False))
        events = {event.position: event for event in ledger.store.read()}
        assert len(events) == 120
        answers = [event for event in events.values() if event.type != "BindRequested"]
        assert len(answers) == 60
        for answer in answers:
            assert answer.causation is not None
            request = events[answer.causation]
            assert (request.type, request.stream, request.causation) == ("BindRequested", answer.stream, None)
        assert ledger.store.verify().ok


def _asked(number: int) -> NewEvent:
    return observation(f"pod-{number}", KEYED + number, at=1)


def _answered(number: int) -> NewEvent:
    return _asked(number)._replace(causation=-(KEYED + number))


def test_where_a_cause_stands() -> None:
    causes, settled = Causes(), []

    def settle() -> None:
        settled.append(True)
        causes.stored([11, 12])

    causes.add(_asked(1), 1)
    causes.add(_asked(2), 2)
    assert causes.of(_answered(1), settle) == -1
    assert causes.of(_answered(3), settle) is None
    causes.sent()
    assert not settled
    assert causes.of(_answered(2), settle) == 12
    assert causes.of(_answered(2), settle) is None
    assert settled == [True]


def test_requests_without_an_answer_are_forgotten_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causing, "KEPT", 2)
    causes = Causes()
    for number in (1, 2, 3):
        causes.add(_asked(number), number)
    causes.sent()
    causes.stored([5, 6, 7])
    assert [causes.of(_answered(number), lambda: None) for number in (1, 2, 3)] == [None, 6, 7]
