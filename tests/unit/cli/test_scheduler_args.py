"""The scheduler's command line: only what its cache and its sessions depend on, in every way of writing it."""

from __future__ import annotations

import pytest

from tests.data import recording
from vcledger.scheduler.session.sampling import DEFAULT_SAMPLING, Sampling
from vcledger.schedulerargs import DEFAULTS, BadSchedulerArgs, config_of, sampling_of


def test_a_command_line_without_those_flags_gives_the_defaults() -> None:
    assert config_of("") == DEFAULTS
    assert config_of("vc-scheduler\n-v=3 --logtostderr=true --leader-elect false") == DEFAULTS


@pytest.mark.parametrize(
    "text",
    [
        "vc-scheduler --ignored-provisioners=a,b",
        "vc-scheduler --ignored-provisioners a --ignored-provisioners=b",
        "vc-scheduler\n--ignored-provisioners='a,b'\n",
    ],
)
def test_provisioners_are_added_to_the_two_that_are_always_ignored(text: str) -> None:
    assert config_of(text).ignored_provisioners == (*DEFAULTS.ignored_provisioners, "a", "b")


def test_names_queue_and_selectors_replace_the_defaults() -> None:
    config = config_of(
        "--scheduler-name=volcano --scheduler-name v2 --default-queue main --node-selector=zone:a,zone:b"
    )
    assert config.scheduler_names == ("volcano", "v2")
    assert config.default_queue == "main"
    assert config.node_selectors == ("zone:a", "zone:b")


def test_a_recording_s_own_file_is_read() -> None:
    text = (recording("03") / "scheduler-args.txt").read_text()
    assert "kubernetes.io/no-provisioner" in config_of(text).ignored_provisioners


@pytest.mark.parametrize("text", ["--default-queue", "--scheduler-name=", 'vc-scheduler "unfinished'])
def test_what_is_no_command_line_is_refused(text: str) -> None:
    with pytest.raises(BadSchedulerArgs):
        config_of(text)


def test_how_many_nodes_are_looked_at() -> None:
    assert sampling_of("vc-scheduler --default-queue main") == DEFAULT_SAMPLING
    assert sampling_of((recording("06") / "scheduler-args.txt").read_text()) == DEFAULT_SAMPLING
    text = "--minimum-feasible-nodes=50\n--minimum-percentage-nodes-to-find 7 --percentage-nodes-to-find=30"
    assert sampling_of(text) == Sampling(50, 7, 30)
    assert sampling_of("--percentage-nodes-to-find=30 --percentage-nodes-to-find=40").percentage == 40
    with pytest.raises(BadSchedulerArgs, match="not a whole number"):
        sampling_of("--percentage-nodes-to-find=half")
