"""What `import vcledger` gives to users of the library, and the typed errors of what they may get wrong."""

from __future__ import annotations

import doctest
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import vcledger
from eventstore.types import EventStoreError
from tests.data import recording
from tests.unit.vcledger import build
from vcledger import Ledger, VcledgerError, errors, import_paths, why, why_job


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(str(tmp_path / "ledger.db"), create=True) as opened:
        opened.store.append(build.life())
        yield opened


def test_the_example_of_the_docstring_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Ledger.open("demo.db", create=True) as ledger:
        import_paths(ledger, [recording("02") / "watch.jsonl.zst"], cluster="capacity")
    assert vcledger.__doc__ is not None
    example = doctest.DocTestParser().get_doctest(vcledger.__doc__, {}, "vcledger", None, 0)
    assert len(example.examples) == 2
    assert doctest.DocTestRunner().run(example).failed == 0


def test_every_name_is_there_and_no_other(ledger: Ledger) -> None:
    for name in vcledger.__all__:
        assert getattr(vcledger, name) is not None, name
    assert set(vcledger.__all__) <= set(dir(vcledger))
    assert vcledger.__version__ == version("vcledger")
    assert vcledger.EventStoreError is EventStoreError
    with pytest.raises(AttributeError, match="no attribute 'Leger'"):
        _ = vcledger.Leger


@pytest.mark.slow
def test_why_is_function_and_module_whichever_was_imported_first(ledger: Ledger) -> None:
    module = import_module("vcledger.why")
    assert why(ledger, "default", "w").verdict == module.why(ledger, "default", "w").verdict == "no-node-fits"
    assert why_job(ledger, "default", "g").name == "g"
    for first in ("import vcledger.why", "from vcledger.why import why", "from vcledger import why", "pass"):
        code = f"{first}\nfrom vcledger import why\nassert callable(why) and why.NoSuchPod.__name__ == 'NoSuchPod'"
        subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_the_package_loads_nothing_of_the_machine() -> None:
    code = "import vcledger, sys; assert not {'sqlalchemy', 'msgspec', 'vcledger.ledger'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_cache_takes_what_position_takes(ledger: Ledger) -> None:
    marked = ledger.cache("marker:busy")
    assert marked is ledger.cache(6) is ledger.cache("2026-03-01T03:00:06Z")
    assert list(ledger.cache("-2s").pods) == list(ledger.cache(7).pods)
    assert list(ledger.rebuild("marker:busy").pods) == ["default/a"]
    with pytest.raises(errors.UnknownMarker):
        ledger.cache("marker:nowhere")
    with pytest.raises(errors.BadTime, match="no moment"):
        ledger.cache("yesterday")


def test_an_unknown_kind_is_a_typed_error_with_near_names(ledger: Ledger) -> None:
    with pytest.raises(errors.UnknownKind, match=r"no kind is named 'Nodee': is it .*Node"):
        ledger.object_as_of("Nodee", "", "n1")
    with pytest.raises(errors.UnknownKind, match="is it Pod,"):
        ledger.object("xyz", 1)
    assert issubclass(errors.UnknownKind, VcledgerError)


def test_filters_of_recorded_are_keywords_that_are_checked(ledger: Ledger) -> None:
    assert [one.position for one in ledger.recorded(kinds="Node")] == [1, 2]
    assert [one.position for one in ledger.recorded(kinds=("Node", "PodGroup"), reverse=True, limit=2)] == [3, 2]
    with pytest.raises(TypeError, match="kind"):
        ledger.recorded(kind="Node")  # type: ignore[call-arg]


def test_errors_do_not_speak_of_the_command_line(ledger: Ledger, tmp_path: Path) -> None:
    ledger.store.append([build.seen("ADDED", build.node("m", 1), 20, "other")])
    with pytest.raises(errors.ClusterNotNamed, match="name one of c, other"):
        ledger.cluster()
    with (
        Ledger.open(str(tmp_path / "empty.db"), create=True) as empty,
        pytest.raises(errors.UnknownCluster, match="is empty") as raised,
    ):
        empty.cluster()
    assert "--" not in str(raised.value)
