"""The proof against the real Volcano, over every recording: no bind of its is refused by our predicates, the sentences
that it wrote come out of the record again, and a free replay leaves the same pods waiting. docs/proof.md has the
tables, which are what is computed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.golden.proof_page import CLUSTER, NAMES, REPLAYED, Recording, computed, on_the_page
from vcledger.ledger import DEFAULT_MODEL, Ledger
from vcledger.proof import proof
from vcledger.proof_choices import judge_choices
from vcledger.proof_dice import LOWER
from vcledger.proof_log import FAILED_ON, cycles
from vcledger.proof_words import ANSWER, HOWS, THROWN, WORD_FOR_WORD
from vcledger.scheduler.session.conf import read_conf

FAST = ("07",)

pytestmark = pytest.mark.xdist_group("proof")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Recording]]:
    folder = tmp_path_factory.mktemp("proof")
    yield {name: Recording(name, folder) for name in NAMES}


def each(*names: str) -> list[object]:
    """A parameter for each recording; the larger ones are slow."""
    return [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in names]


@pytest.mark.parametrize("name", each(*NAMES))
def test_no_bind_of_the_real_volcano_is_refused(found: Mapping[str, Recording], name: str) -> None:
    real = found[name].proof
    assert [(one.placement.position, one.placement.key, one.reasons) for one in real.refused] == []
    assert len(real.binds) > 10
    assert real.bind_counts.get("unseen", 0) <= len(real.binds) // 10


@pytest.mark.parametrize("name", each(*NAMES))
def test_the_sentences_come_out_again(found: Mapping[str, Recording], name: str) -> None:
    """At least 95 of 100 of those that can be made, every character: at once, for the dice that the real one threw
    among the nodes that the session scores best, or once binds that failed are put in."""
    real = found[name].proof
    told = [(one.written.position, one.how, one.written.message, one.ours) for one in real.differing]
    assert real.equal >= 0.95 * real.made, told
    assert sum(real.word_counts.values()) == len(real.sentences)


@pytest.mark.slow
def test_over_all_recordings_too(found: Mapping[str, Recording]) -> None:
    """Of all, those that rest on no bind in flight; and those that repeat an unseen answer are few."""
    counts = {how: sum(one.proof.word_counts.get(how, 0) for one in found.values()) for how in HOWS}
    made = sum(counts.values()) - counts[ANSWER]
    assert made > 1_000
    assert counts[WORD_FOR_WORD] + counts[THROWN] >= 0.95 * made
    assert counts[ANSWER] < 30
    nodeless = [sentence for one in found.values() for sentence in one.proof.nodeless]
    assert len(nodeless) > 300
    assert sum(one.how == WORD_FOR_WORD for one in nodeless) >= 0.95 * len(nodeless)


@pytest.mark.parametrize("name", each(*NAMES))
def test_the_nodes_of_the_binds_are_among_those_that_the_session_scores_best(
    found: Mapping[str, Recording], name: str
) -> None:
    """At least 95 of 100. Pods whose bind fails, as the proxy swallowed it or its answer, hold room until then that no
    watch shows: of a record that has such, at least 60."""
    real = found[name].proof
    seen = len(real.choices) - real.choice_counts.get("unseen", 0)
    assert len(real.choices) == len(real.binds)
    told = [(one.placement.position, one.placement.key, one.placement.node, one.how) for one in real.choices]
    hidden = any(FAILED_ON.match(one.written.message) for one in real.sentences)
    assert real.could >= (0.6 if hidden else 0.95) * seen, told


def test_scores_of_another_configuration_are_noticed(found: Mapping[str, Recording]) -> None:
    """Without binpack the session would have spread the pods of 07: most recorded nodes are not the best then."""
    one = found["07"]
    conf = read_conf(one.conf.replace("  - name: binpack\n", ""))
    with Ledger.open(one.ledger, read_only=True) as ledger:
        parts = cycles(ledger, CLUSTER, one.config)
        spread = judge_choices(ledger, CLUSTER, parts, DEFAULT_MODEL, one.config, conf)
    assert sum(choice.how == LOWER for choice in spread) > len(spread) // 2
    assert not any(choice.how == LOWER for choice in one.proof.choices)


@pytest.mark.parametrize("name", each(*NAMES))
def test_the_session_refuses_no_bind_either(found: Mapping[str, Recording], name: str) -> None:
    """At each recorded decision the session's columns are asked about the node that Volcano took."""
    counts = found[name].shadow
    assert counts.infeasible == 0
    assert counts.same_node + counts.other_node >= 0.99 * len(found[name].proof.binds) - 3


@pytest.mark.slow
@pytest.mark.parametrize("name", REPLAYED)
def test_the_same_pods_wait_in_a_free_replay(found: Mapping[str, Recording], name: str) -> None:
    """At each marker: of 100 pods of the record that wait, 95 wait in the replay too, or their like does in their
    place, which is then as many more as the node that was chosen decides."""
    rows = found[name].waiting
    assert rows
    for one in rows:
        assert one.here == one.there
        assert one.alike >= 0.95 * one.there
        if name == "02":
            assert one.same == one.there


@pytest.mark.slow
@pytest.mark.parametrize("name", REPLAYED)
def test_our_own_binds_are_judged_as_volcanos_are(found: Mapping[str, Recording], name: str) -> None:
    """The node table of `why` judges what the session's columns decided in the free replay."""
    with Ledger.open(found[name].freely, read_only=True) as ledger:
        replayed = proof(ledger, config=found[name].config)
    assert len(replayed.binds) >= 0.95 * len(found[name].proof.binds)
    assert replayed.bind_counts == {"at once": len(replayed.binds)}


@pytest.mark.slow
def test_the_page_has_what_is_computed(found: Mapping[str, Recording]) -> None:
    assert on_the_page() == computed(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", REPLAYED)
def test_held_to_the_records_nodes_the_very_same_pods_wait(found: Mapping[str, Recording], name: str) -> None:
    """Who is let in, in which order, who is evicted for whom and which pod of a node: all that is decided here. Without
    a node left to chance it gives the record's pods by name, 95 in 100 of them at least."""
    rows = found[name].forced
    assert any(one.there for one in rows)
    for one in rows:
        assert one.here == one.there
        assert one.same >= 0.95 * one.there
