"""What a file is called in the report, and what its format cannot prove: by the values that were met in it.

Owns labels and texts. Must not test what is stored.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.data import recording
from tests.unit.sources.given import imported, pod, recorded, watch_line, written
from tests.unit.sources.test_second_hand import bind
from vcledger.sources.detect import Format, detect
from vcledger.sources.prove import CANNOT

EVENT = {"type": "ADDED", "object": pod()}
OTHER_WAY = {"object": pod("b", 2, annotations={"a": "x" * 300_000}), "type": "MODIFIED"}


def pretty(*values: Any) -> bytes:
    return b"".join(json.dumps(value, indent=4).encode() + b"\n" for value in values)


def line(value: Any) -> bytes:
    return json.dumps(value).encode()


def event_list() -> dict[str, Any]:
    """An audit webhook's form."""
    items = [json.loads(bind("p1", "n1", second)) for second in (5, 6)]
    return {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": items}


FORMS: dict[str, tuple[bytes, tuple[Format, ...]]] = {
    "watch lines": (watch_line("ADDED", pod()) * 2, (Format.watch,)),
    "one watch line without its newline": (line(EVENT), (Format.watch,)),
    "a pretty-printed watch": (pretty(EVENT, EVENT), (Format.watch,)),
    "a pretty-printed watch on Windows": (pretty(EVENT, EVENT).replace(b"\n", b"\r\n"), (Format.watch,)),
    "a watch whose object comes first": (pretty({"object": pod(), "type": "ADDED"}), (Format.watch,)),
    "a line longer than what is looked at": (line(OTHER_WAY), (Format.watch,)),
    "a watch after a broken line": (b'{"type":"ADDED","obj\n' + line(EVENT), (Format.watch,)),
    "objects": (pretty(pod(), pod("b", 2)), (Format.objects,)),
    "an object on a line": (line(pod()), (Format.objects,)),
    "a List": (pretty({"kind": "List", "apiVersion": "v1", "items": [pod()]}), (Format.objects,)),
    "a List on a line": (line({"kind": "List", "apiVersion": "v1", "items": [pod()]}), (Format.objects,)),
    "objects and a watch": (pretty(pod(), EVENT), (Format.watch, Format.objects)),
    "YAML": (yaml.safe_dump(pod()).encode(), (Format.yaml,)),
    "a recording": (recorded("ADDED", pod(), 1) * 3, (Format.recording,)),
    "an audit log": (bind("p1", "n1", 5), (Format.audit,)),
    "an audit EventList": (line(event_list()), (Format.audit,)),
    "a pretty-printed audit EventList": (pretty(event_list()), (Format.audit,)),
    "a pretty-printed audit log": (pretty(json.loads(bind("p1", "n1", 5))), (Format.audit,)),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_file_is_called_what_was_met_in_it(tmp_path: Path, form: str) -> None:
    data, formats = FORMS[form]
    report = imported(tmp_path, written(tmp_path, "f", data))
    assert report.stored
    assert report.files[0].format == ", ".join(formats)
    assert report.cannot_prove == [f"{one}: {sentence}" for one in formats for sentence in CANNOT[one]]


def test_a_dump(tmp_path: Path) -> None:
    report = imported(tmp_path, recording("02") / "volcano-cache-dump-1-many-pending.json.zst")
    assert report.files[0].format == "Volcano cache dump" and len(report.cannot_prove) == 1


@pytest.mark.parametrize("form", ["watch lines", "one watch line without its newline", "a pretty-printed watch"])
def test_the_two_caveats_of_a_watch(tmp_path: Path, form: str) -> None:
    first, second = imported(tmp_path, written(tmp_path, "f", FORMS[form][0])).cannot_prove
    assert "no time of receipt" in first and "binds that failed" in second


def test_every_format_that_holds_facts_has_its_caveats() -> None:
    assert set(CANNOT) == set(Format) - {Format.empty, Format.unknown, Format.log}


@pytest.mark.parametrize("form", [name for name in FORMS if "a watch" in name or "watch line" in name])
def test_a_watch_is_known_from_its_beginning(form: str) -> None:
    """That it is a watch decides what an audit log beside it may say, so it is known before it is read."""
    expected = Format.objects if "broken" in form or "objects and" in form else Format.watch
    assert detect(FORMS[form][0][: 1 << 18]) is expected


@pytest.mark.parametrize("form", [name for name in FORMS if "audit" in name])
def test_an_audit_log_is_known_from_its_beginning(form: str) -> None:
    """So that beside a watch it is what it is: second-hand."""
    assert detect(FORMS[form][0]) is Format.audit
