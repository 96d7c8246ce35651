"""`/metrics`, `/healthz` and `/readyz` of a scheduler.

Owns the names of the metrics and what healthy means. Must not know how anything is scheduled. Called by `cli.schedule`.

    /metrics   for Prometheus
    /healthz   200 while it can write down what it decides; 503 when the ledger refused for a minute, or it has ended
    /readyz    200 for the leader once all is listed, and for one that waits for the lock
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from vcledger.runtime.page import NoPage, StatusPage
from vcledger.schedule.scheduler import Scheduler

PREFIX = "vcledger_schedule"


class SchedulerCollector(Collector):
    """The numbers of a scheduler, taken when they are asked for."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    def collect(self) -> Iterable[Metric]:
        """Every metric; docs/scheduling.md has the table."""
        state, meters = self.scheduler.state(), self.scheduler.meters
        answers = CounterMetricFamily(
            f"{PREFIX}_answers", "Answers to requests that a decision led to", labels=["request", "code"]
        )
        for labels, count in meters.counts("answers").items():
            answers.add_metric(labels, count)
        yield answers
        asked = CounterMetricFamily(
            f"{PREFIX}_api_requests", "Lists and watches asked for", labels=["resource", "verb", "code"]
        )
        for labels, count in meters.counts("requests").items():
            asked.add_metric(labels, count)
        yield asked
        for name, text, value in (
            ("leading", "Whether it has the leader lock", float(state.leading)),
            ("synced", "Whether every list that it needs is complete", float(state.synced)),
            ("watching", "Kinds that are watched", state.watching),
            ("inputs_waiting", "Inputs that wait for the loop", state.waiting),
            ("tasks", "Tasks on their way to a node", state.tasks),
            ("bind_queue", "Tasks in the bind queue", state.queued),
            ("waiting_for_volumes", "Tasks whose volumes are not bound yet", state.volumes),
            ("resync_queue", "Tasks in the resync queue", state.resync),
            ("evictions", "Tasks that were told to go and were not seen going yet", state.evictions),
            ("requests_out", "Requests that are not answered yet", state.out),
            ("position", "The last durable position", state.position),
        ):
            yield GaugeMetricFamily(f"{PREFIX}_{name}", text, value=value)


class Page(StatusPage):
    """A scheduler's page."""

    def __init__(self, scheduler: Scheduler, address: str) -> None:
        self.scheduler = scheduler
        super().__init__(address, SchedulerCollector(scheduler))

    @property
    def over(self) -> bool:
        """The scheduler has ended."""
        return self.scheduler.wait(0)

    @property
    def problem(self) -> str:
        """Why the ledger refuses."""
        return self.scheduler.state().problem

    def ready(self) -> tuple[int, str]:
        """The answer of /readyz."""
        state = self.scheduler.state()
        lines = [f"{title}: {problem}" for title, problem in state.problems.items()]
        if not state.leading:
            return 200, f"waiting: {state.holder or 'nobody'} has the lock\n"
        head = (
            f"leading, {'listed' if state.synced else 'not all listed yet'}, {state.watching} of {state.kinds} watched"
        )
        return (200 if state.synced else 503), "\n".join([head, *lines]) + "\n"


__all__ = ["NoPage", "Page", "SchedulerCollector"]
