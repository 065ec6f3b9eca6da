"""The text of `/metrics`, in Prometheus' formats; prometheus_client is imported here alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from clew_daemon import VERSION
from clew_daemon.herald.alerts import DaemonHealth
from clew_daemon.herald.counters import HELP, LABELS, MetricSeries
from clew_daemon.herald.spools import ChannelHealth
from clew_shared.record.model import GoalStatus


@dataclass(frozen=True, slots=True)
class Readings:
    """What the metrics show at one moment; `health` is None if no daemon answers."""

    statuses: Mapping[str, int]
    needs_person: int
    counters: Mapping[MetricSeries, int]
    health: DaemonHealth | None
    channels: Sequence[ChannelHealth]


class _Fixed(Collector):
    """A collector that shows readings."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def collect(self) -> Iterator[Metric]:
        readings = self._readings
        yield InfoMetricFamily("clew_build", "The version of clew.", {"version": VERSION})
        yield _goals(readings)
        yield GaugeMetricFamily(
            "clew_needs_person", "Goals that wait for a person.", readings.needs_person
        )
        yield from _counters(readings.counters)
        up = int(readings.health is not None)
        yield GaugeMetricFamily("clew_daemon_up", "Whether the daemon answers.", up)
        if readings.health is not None:
            yield _commits(readings.health)
        yield _undelivered(readings.channels)


def render(readings: Readings, accept: str = "") -> tuple[bytes, str]:
    """Return the text in the format that an `Accept` header asks for, and its content type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Fixed(readings))
    encode, kind = choose_encoder(accept)
    return encode(registry), kind


def _goals(readings: Readings) -> Metric:
    goals = GaugeMetricFamily("clew_goals", "Goals on record.", labels=["status"])
    for status in GoalStatus:
        goals.add_metric([status], readings.statuses.get(status, 0))
    return goals


def _counters(values: Mapping[MetricSeries, int]) -> Iterator[Metric]:
    for name, labels in LABELS.items():
        family = CounterMetricFamily(name.removesuffix("_total"), HELP[name], labels=labels)
        for series in sorted(values):
            if series.name == name:
                family.add_metric(series.labels, values[series])
        yield family


def _commits(health: DaemonHealth) -> Metric:
    times = HistogramMetricFamily(
        "clew_ledger_commit_seconds", "How long the daemon's commits to the ledger took."
    )
    cumulated, buckets = 0, []
    for bound, count in zip([*map(str, health.bounds), "+Inf"], health.counts, strict=True):
        cumulated += count
        buckets.append((bound, cumulated))
    times.add_metric([], buckets, health.sum_s)
    return times


def _undelivered(channels: Sequence[ChannelHealth]) -> Metric:
    waiting = GaugeMetricFamily(
        "clew_herald_undelivered",
        "Messages and spans that wait to be sent.",
        labels=["channel"],
    )
    for channel in channels:
        waiting.add_metric([channel.label], channel.waiting)
    return waiting
