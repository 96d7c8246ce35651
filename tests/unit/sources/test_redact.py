"""What is left out of an object, and that every other byte of it stays.

Owns the storage rules. Must not test formats.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eventstore.types import StreamId
from tests.data import recordings
from tests.unit.sources.given import events, imported, ledger, pod, watch_line, watch_of, written
from vcledger.sources import ImportOptions, StorageOptions, import_paths
from vcledger.sources.observe import Observer, kind_of_object
from vcledger.sources.redact import DECODERS, REDACTED

HIDDEN = json.loads(REDACTED)
DEFAULT = StorageOptions()
KEEP_ALL = StorageOptions(keep_managed_fields=True, keep_env=True, keep_last_applied=True)


def stored(obj: dict[str, Any], options: StorageOptions = DEFAULT, text: bytes | None = None) -> bytes:
    """What is stored of an object."""
    data = text if text is not None else json.dumps(obj, separators=(",", ":")).encode()
    observer = Observer("c", options)
    kind = kind_of_object(data)
    return observer.event(kind, "ADDED", observer.read(kind, data), data, 0).payload


ENV = [
    {"name": "A", "value": "secret"},
    {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "value"}}},
    {"name": "C", "value": 'with "quotes", \\ and \u2028 \U0001f600'},
    {"name": "D", "value": ""},
    {"name": "value", "value": "value"},
]
REDACTED_ENV = [
    {"name": "A", "value": HIDDEN},
    ENV[1],
    {"name": "C", "value": HIDDEN},
    {"name": "D", "value": HIDDEN},
    {"name": "value", "value": HIDDEN},
]


def with_env(env: Any) -> dict[str, Any]:
    """A pod whose containers of all three sorts have these variables, two of them the very same."""
    container = {"name": "main", "env": env}
    spec = {
        "initContainers": [container],
        "containers": [container, {"name": "other", "env": env}],
        "ephemeralContainers": [container],
    }
    return pod("p", 5, spec=spec)


def test_environment_values_of_all_containers() -> None:
    assert json.loads(stored(with_env(ENV))) == with_env(REDACTED_ENV)
    assert json.loads(stored(with_env(ENV), StorageOptions(keep_env=True))) == with_env(ENV)
    assert b'secret"' not in stored(with_env(ENV))


@pytest.mark.parametrize("env", [None, [], [{"name": "X"}]])
def test_environments_without_values(env: Any) -> None:
    assert json.loads(stored(with_env(env))) == with_env(env)


def test_environment_values_in_a_jobs_templates() -> None:
    def job(env: Any) -> dict[str, Any]:
        template = {"spec": with_env(env)["spec"]}
        meta = {"name": "j", "namespace": "d", "uid": "u", "resourceVersion": "1"}
        return {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": meta,
            "spec": {"tasks": [{"name": "t", "template": template}]},
        }

    assert json.loads(stored(job(ENV))) == job(REDACTED_ENV)


@pytest.mark.parametrize("place", ["first", "middle", "last", "alone"])
def test_managed_fields_wherever_they_stand(place: str) -> None:
    managed = [{"manager": "m", "fieldsV1": {"f:managedFields": {}}}]
    meta = pod("p", 5)["metadata"]
    items = list(meta.items())
    items.insert({"first": 0, "middle": 2, "last": len(items), "alone": 0}[place], ("managedFields", managed))
    obj = pod("p", 5) | {"metadata": dict(items)}
    assert stored(obj) == json.dumps(pod("p", 5), separators=(",", ":")).encode()
    assert stored(obj, KEEP_ALL) == json.dumps(obj, separators=(",", ":")).encode()


def test_a_key_of_the_same_name_elsewhere_stays() -> None:
    inner = [{"manager": "not this"}]
    spec = {"managedFields": inner, "env": [{"value": "stays, as it is not a container's"}], "containers": []}
    obj = {
        "kind": "Pod",
        "apiVersion": "v1",
        "spec": spec,
        "metadata": pod("p", 5)["metadata"] | {"managedFields": [{"manager": "this"}]},
    }
    assert json.loads(stored(obj)) == obj | {"metadata": pod("p", 5)["metadata"]}


def test_the_last_applied_annotation() -> None:
    name = "kubectl.kubernetes.io/last-applied-configuration"
    obj = pod("p", 5, annotations={"a": "b", name: json.dumps({"env": [{"value": 'secret \\ " }'}]}), "z": "y"})
    kept = json.loads(stored(obj))["metadata"]["annotations"]
    assert kept == {"a": "b", name: HIDDEN, "z": "y"}
    assert json.loads(stored(obj, KEEP_ALL)) == obj


def test_blanks_between_tokens_do_not_matter() -> None:
    obj = with_env(ENV) | {"metadata": pod("p", 5)["metadata"] | {"managedFields": [{"manager": "m"}]}}
    expected = with_env(REDACTED_ENV)
    for indent in (None, 0, 4):
        assert json.loads(stored(obj, text=json.dumps(obj, indent=indent).encode())) == expected


@pytest.mark.parametrize("folder", recordings(), ids=lambda folder: folder.name[:2])
def test_every_object_of_the_recordings(folder: Path) -> None:
    """Against the plain way: decode everything, take out what is to go, compare all the rest."""
    observer = Observer("c", StorageOptions())
    compared = 0
    for line in watch_of(folder.name).splitlines()[:6000]:
        value = json.loads(line)
        if "marker" in value or value["type"] == "BOOKMARK" or value.get("initialList"):
            continue
        data = line[line.index(b'"object":') + 9 : -1]
        kind = kind_of_object(data)
        found = observer.event(kind, "ADDED", observer.read(kind, data), data, 0).payload
        expected = value["object"]
        expected["metadata"].pop("managedFields", None)
        redact(expected)
        assert json.loads(found) == expected
        compared += 1
    assert compared > 400


def redact(value: Any) -> None:
    """Hides every env value, the slow way."""
    if isinstance(value, dict):
        for variable in value.get("env") or ():
            if "value" in variable:
                variable["value"] = HIDDEN
        for part in value.values():
            redact(part)
    elif isinstance(value, list):
        for part in value:
            redact(part)


def test_the_options_of_an_import(tmp_path: Path) -> None:
    obj = with_env(ENV) | {"metadata": pod("p", 5)["metadata"] | {"managedFields": [{"manager": "m"}]}}
    path = written(tmp_path, "w", watch_line("ADDED", obj))
    with ledger(tmp_path, "all.db") as opened:
        import_paths(opened, [path], options=ImportOptions(storage=KEEP_ALL, snapshots=False))
    imported(tmp_path, path)
    assert json.loads(events(tmp_path, "all.db")[0].payload) == obj
    assert json.loads(events(tmp_path)[0].payload) == with_env(REDACTED_ENV)


def test_about_is_the_uid_that_an_event_speaks_of() -> None:
    observer = Observer("c", StorageOptions())
    meta = {"name": "e", "namespace": "d", "uid": "u", "resourceVersion": "1"}
    for version, field in (("v1", "involvedObject"), ("events.k8s.io/v1", "regarding")):
        obj = {
            "kind": "Event",
            "apiVersion": version,
            "metadata": meta,
            field: {"kind": "Pod", "uid": "pod-uid"},
            "eventTime": None,
            "firstTimestamp": None,
        }
        data = json.dumps(obj).encode()
        kind = kind_of_object(data)
        event = observer.event(kind, "ADDED", observer.read(kind, data), data, 0)
        assert (event.stream, event.about) == (StreamId("c", "Event", "d", "e", "u"), "pod-uid")


@pytest.mark.parametrize("where", [b'{"a":"\x01"}', b'{"a\x02":1}', b'{"a":{"b":["x\x03"]}}', b'{"a":1,\x01"b":2}'])
def test_no_object_holds_the_bytes_of_the_short_form(where: bytes) -> None:
    """What the log puts into payloads in place of names can never be in one: `shorten_json` counts on it."""
    data = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},"spec":{},"more":' + where + b"}"
    with pytest.raises(msgspec.DecodeError):
        DECODERS["Pod"].decode(data)
