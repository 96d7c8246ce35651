"""Variants, seeds and traces: what is read, what is refused, and the jobs that come of them."""

from __future__ import annotations

import pickle

import pytest

from vcledger.replay.engine import ReplayPlan
from vcledger.replay.variants import (
    Job,
    Trace,
    Variant,
    VariantInvalid,
    make_jobs,
    read_seed,
    read_seeds,
    read_variant,
    trace_names,
)
from vcledger.replay.whatif import AddNodes, ChangeInvalid

ONE = [Trace("a.db", "lab", 0, 9)]
PLAN = ReplayPlan(mode="free", seed=3, conf="actions: allocate")


def no_file(name: str) -> str:
    raise AssertionError(f"{name} is read")


def labels(jobs: list[Job]) -> list[str]:
    return [job.label for job in jobs]


def test_a_variant_is_options_after_its_name() -> None:
    variant = read_variant(
        "more nodes: --add-nodes '2:cpu=1,name=a' --set=queue/small.weight=2 --seed 7 --config conf.yaml", str.upper
    )
    assert variant == Variant(
        "more nodes", {"--add-nodes": ("2:cpu=1,name=a",), "--set": ("queue/small.weight=2",)}, "CONF.YAML", 7
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("--add-nodes 2", "give it a name first"),
        (": --seed 1", "'' is no name for a variant"),
        ("a/b: --seed 1", "'a/b' is no name for a variant"),
        ("base: --seed 1", "'base' is no name for a variant"),
        ("a:", "it changes nothing; it takes --add-nodes"),
        ("a: --mode free", "--mode is none of --add-nodes"),
        ("a: more", "more is none of"),
        ("a: --seed", "--seed needs a value"),
        ("a: --seed 1 --seed 2", "--seed is given twice"),
        ("a: --seed -1", "want a whole number"),
        ("a: --set 'x", "no closing quotation"),
    ],
)
def test_variants_that_are_refused(text: str, says: str) -> None:
    with pytest.raises(VariantInvalid) as error:
        read_variant(text, no_file)
    assert says in str(error.value)


def test_a_variants_changes_are_read_at_once() -> None:
    with pytest.raises(ChangeInvalid, match="begin with how many"):
        read_variant("a: --add-nodes cpu=2", no_file)


def test_seeds() -> None:
    assert read_seeds("1..3") == (1, 2, 3)
    assert read_seeds("7,1..2, 4") == (7, 1, 2, 4)
    assert read_seed("0") == 0
    for text in ("", "a", "3..1", "1,1", "1..100000", "-1", "1..2..3"):
        with pytest.raises(VariantInvalid):
            read_seeds(text)
    with pytest.raises(VariantInvalid):
        read_seed(str(2**63))


def test_the_base_comes_first_and_variants_stand_on_it() -> None:
    jobs = make_jobs(
        PLAN,
        {"--add-nodes": ("1:cpu=1",)},
        [Variant("more", {"--add-nodes": ("2:cpu=2",)}), Variant("other", {}, "actions: backfill", 9)],
        ONE,
    )
    assert labels(jobs) == ["base", "more", "other"]
    assert [[change.count for change in job.plan.changes if isinstance(change, AddNodes)] for job in jobs] == [
        [1],
        [1, 2],
        [1],
    ]
    assert [(job.plan.seed, job.plan.conf) for job in jobs] == [
        (3, "actions: allocate"),
        (3, "actions: allocate"),
        (9, "actions: backfill"),
    ]
    assert all((job.db, job.plan.cluster, job.plan.to_position) == ("a.db", "lab", 9) for job in jobs)
    assert pickle.loads(pickle.dumps(jobs)) == jobs


def test_traces_seeds_and_variants_in_a_fixed_order() -> None:
    jobs = make_jobs(
        PLAN,
        {},
        [Variant("more", {"--remove-node": ("a",)}), Variant("fixed", {}, None, 1)],
        [Trace("x/a.db", "one"), Trace("y/b.db", "two")],
        seeds=(1, 2),
        out="results",
    )
    assert labels(jobs) == [
        "a base seed 1",
        "a more seed 1",
        "a fixed seed 1",
        "a base seed 2",
        "a more seed 2",
        "b base seed 1",
        "b more seed 1",
        "b fixed seed 1",
        "b base seed 2",
        "b more seed 2",
    ]
    assert jobs[0].out == "results/a-base-seed-1.db"
    assert len({job.out for job in jobs}) == len(jobs)


def test_one_job_has_its_result_where_it_was_asked_for() -> None:
    assert [job.out for job in make_jobs(PLAN, {}, [], ONE, out="here.db")] == ["here.db"]
    assert [job.out for job in make_jobs(PLAN, {}, [], ONE)] == [None]


def test_several_results_are_files_in_a_folder() -> None:
    with pytest.raises(VariantInvalid, match=r"--out postgresql://a:\*\*\*@b/c: of 2 replays the results are files"):
        make_jobs(PLAN, {}, [Variant("a", {}, None, 1)], ONE, out="postgresql://a:b@b/c")


def test_two_variants_of_one_name_and_changes_that_do_not_go_together() -> None:
    with pytest.raises(VariantInvalid, match="two variants are called 'a'"):
        make_jobs(PLAN, {}, [Variant("a", {}, None, 1), Variant("a", {}, None, 2)], ONE)
    with pytest.raises(VariantInvalid, match="'a b' and 'a-b' would be one file"):
        make_jobs(PLAN, {}, [Variant("a b", {}, None, 1), Variant("a-b", {}, None, 2)], ONE)
    with pytest.raises(ChangeInvalid, match="a: --scale-requests is given twice"):
        make_jobs(PLAN, {"--scale-requests": ("0.5",)}, [Variant("a", {"--scale-requests": ("2",)})], ONE)


def test_names_of_traces() -> None:
    assert trace_names(["a.db"]) == [""]
    assert trace_names(["x/a.db", "x/b.db"]) == ["a", "b"]
    assert trace_names(["x/a.db", "y/a.db"]) == ["x/a.db", "y/a.db"]
    assert trace_names(["postgresql://me:secret@host/prod", "postgresql://me:secret@other/prod"]) == [
        "postgresql://me:***@host/prod",
        "postgresql://me:***@other/prod",
    ]
