"""`/metrics`, `/healthz` and `/readyz` of a recorder.

Owns the names of the metrics and what healthy means. Must not know how anything is recorded. Called by `cli.record`.

    /metrics   for Prometheus
    /healthz   200 while it can store what it sees; 503 when the ledger has refused for a minute, or it has ended
    /readyz    200 once every kind that is installed has been listed
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from vcledger.record.recorder import Recorder
from vcledger.runtime.page import NoPage, StatusPage

PREFIX = "vcledger_record"


class RecorderCollector(Collector):
    """The numbers of a recorder, taken when they are asked for."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def collect(self) -> Iterable[Metric]:
        """Every metric; docs/recording.md has the table."""
        yield from self._of_kinds()
        yield from self._of_the_ledger()
        requests = CounterMetricFamily(
            f"{PREFIX}_api_requests", "Lists and watches asked for", labels=["resource", "verb", "code"]
        )
        for labels, count in self.recorder.meters.counts("requests").items():
            requests.add_metric(labels, count)
        yield requests

    def _of_kinds(self) -> Iterable[Metric]:
        labels = ["resource", "namespace"]
        changes = CounterMetricFamily(f"{PREFIX}_changes", "Objects seen, by watch or list", labels=[*labels, "type"])
        counters = {
            name: CounterMetricFamily(f"{PREFIX}_{name}", text, labels=labels)
            for name, text in (
                ("lists", "Lists that were completed"),
                ("gaps", "Gaps recorded"),
                ("bookmarks", "Bookmarks received"),
                ("failures", "Lists and watches that failed"),
                ("expired", "Versions that had expired (410)"),
                ("refused", "Objects that could not be used"),
                ("inferred", "Deletions that a list found"),
            )
        }
        watching = GaugeMetricFamily(f"{PREFIX}_watching", "Whether a watch is open", labels=labels)
        heard = GaugeMetricFamily(f"{PREFIX}_heard_timestamp_seconds", "When a line or a list last came", labels=labels)
        for feed in self.recorder.feeds:
            where = [feed.scope.resource, feed.scope.namespace]
            for type_, count in feed.counts.changes.items():
                changes.add_metric([*where, type_], count)
            for name, metric in counters.items():
                metric.add_metric(where, getattr(feed.counts, name))
            watching.add_metric(where, float(feed.watching))
            if feed.heard_at is not None:
                heard.add_metric(where, feed.heard_at / 1_000_000)
        return [changes, *counters.values(), watching, heard]

    def _of_the_ledger(self) -> Iterable[Metric]:
        recorder, meters = self.recorder, self.recorder.meters
        for name, text in (
            ("stored", "Events stored"),
            ("already", "Events that the ledger had already"),
            ("late", "Events stored as late"),
            ("append_failures", "Appends that the ledger refused"),
            ("snapshots", "Snapshots made"),
            ("pruned", "Events dropped by retention"),
        ):
            yield CounterMetricFamily(f"{PREFIX}_{name}", text, value=meters.count(name))
        for name, text, value in (
            ("position", "The last durable position", meters.gauge("position")),
            ("durable_timestamp_seconds", "When something last became durable", meters.gauge("durable_at")),
            ("ledger_bytes", "What the ledger takes of the disk", meters.gauge("ledger_bytes")),
            ("backlog_events", "Events seen and not yet durable", recorder.backlog.items),
            ("backlog_bytes", "Their bytes", recorder.backlog.bytes),
            ("backlog_bytes_max", "How many may wait before watches are held up", recorder.backlog.bytes_max),
        ):
            yield GaugeMetricFamily(f"{PREFIX}_{name}", text, value=value)
        buckets, total = meters.append_seconds()
        yield HistogramMetricFamily(
            f"{PREFIX}_append_seconds", "How long appends took", buckets=buckets, sum_value=total
        )


class Page(StatusPage):
    """A recorder's page."""

    def __init__(self, recorder: Recorder, address: str) -> None:
        self.recorder = recorder
        super().__init__(address, RecorderCollector(recorder))

    @property
    def over(self) -> bool:
        """The recording has ended."""
        return self.recorder.wait(0)

    @property
    def problem(self) -> str:
        """Why the ledger refuses."""
        return self.recorder.standing().problem

    def ready(self) -> tuple[int, str]:
        """The answer of /readyz."""
        standing = self.recorder.standing()
        waiting = standing.scopes - standing.listed - len(standing.problems)
        lines = [f"{title}: {problem}" for title, problem in standing.problems.items()]
        head = f"{standing.listed} of {standing.scopes} listed, {standing.watching} watched"
        ready = standing.scopes and standing.listed and waiting <= 0
        return (200 if ready else 503), "\n".join([head, *lines]) + "\n"


__all__ = ["NoPage", "Page", "RecorderCollector"]
