"""What the extender counts of itself, for Prometheus.

It must not decide, nor look at anything at a scrape but at what the state says.
"""

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from railside_extender.cluster import Cluster

PREFIX: Final = "railside_extender_"
_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_BYTES: Final = (1e3, 1e4, 1e5, 1e6, 1e7, 6.4e7)


class Telemetry:
    """The extender's own series, in a registry of their own."""

    def __init__(self, cluster: Cluster, ready: Callable[[], bool]) -> None:
        """Count from nothing; ``cluster`` and ``ready`` are asked at each scrape."""
        self._registry = CollectorRegistry()
        self._seconds = self._of_requests(
            "request_duration_seconds", "Time to answer the scheduler, waiting included.", _SECONDS
        )
        self._bytes = self._of_requests("request_size_bytes", "Size of the scheduler's requests.", _BYTES)
        self._failed = self._counter(
            "requests_refused_total", "Requests that were not answered.", "verb", "status"
        )
        self._nodes = self._counter("nodes_total", "Nodes that the filter was asked about.", "outcome")
        self._reasons = self._counter("reasons_total", "Why a pod found no node, by the first of them.", "code")
        self._registry.register(_State(cluster, ready))

    def answered(self, verb: str, seconds: float, size: int) -> None:
        """The scheduler was answered."""
        self._seconds.labels(verb).observe(seconds)
        self._bytes.labels(verb).observe(size)

    def refused(self, verb: str, status: int) -> None:
        """It was not."""
        self._failed.labels(verb, str(status)).inc()

    def filtered(self, offered: int, others: int) -> None:
        """So many nodes were offered for a pod, and so many others it was asked about."""
        self._nodes.labels("offered").inc(offered)
        self._nodes.labels("not_offered").inc(others)

    def no_node(self, code: str) -> None:
        """A pod found none."""
        self._reasons.labels(code).inc()

    def text(self) -> bytes:
        """All series, as a scrape gets them."""
        return generate_latest(self._registry)

    def _of_requests(self, name: str, words: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"{PREFIX}{name}", words, ["verb"], buckets=buckets, registry=self._registry)

    def _counter(self, name: str, words: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}{name}", words, labels, registry=self._registry)


class _State(Collector):
    """What the state says at the moment of a scrape: no series outlives what it is about."""

    def __init__(self, cluster: Cluster, ready: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._ready = ready

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The series."""
        cluster = self._cluster
        yield _gauge("ready", "Whether nodes, records and pods were read.", float(self._ready()))
        yield _gauge("holds", "Pods that were offered nodes and are seen on none yet.", len(cluster.holds))
        yield _gauge("records", "Nodes whose agent published a record.", len(cluster.records))
        yield _gauge("in_flight", "Pods that are bound, and not in their node's record yet.", cluster.in_flight())
        yield _gauge("turned_away", "Pods seen that a kubelet did not admit.", cluster.turned_away)


def _gauge(name: str, words: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}{name}", words, value=value)
