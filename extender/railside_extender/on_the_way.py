"""Which pods are on their way to a node: bound there, and not shown whole by its record.

It must not know what was offered to pods, nor decide whether they fit.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from railside_extender.pod_facts import PodFacts
from railside_proto.names import CPU_RESOURCE
from railside_proto.podspec import PodAsk
from railside_proto.record import Record


def coming(pods: Iterable[PodFacts], record: Record, aligned: frozenset[str]) -> Iterator[PodAsk]:
    """What pods ask for of which ``record`` may not show all yet.

    A record tells at once who holds which devices, and of exclusive CPUs only now and then how many are taken:
    while it tells of fewer than pods have, any of them may be those that are missing.
    """
    here = tuple(pods)
    lags = CPU_RESOURCE in aligned and _lacks_cpus(here, record)
    for pod in here:
        if pod.over or not isinstance(pod.ask, PodAsk):
            continue
        if is_coming(pod, record):
            yield pod.ask
        elif lags and pod.ask.cpus:
            yield _cpus_alone(pod.ask)


def is_coming(pod: PodFacts, record: Record) -> bool:
    """Whether the record does not show all devices yet that the pod holds, or will hold.

    Resources that records do not count are nobody's affair here.
    """
    if pod.over or not isinstance(pod.ask, PodAsk):
        return False
    counted = {one.resource for one in record.counts}
    held: Counter[tuple[str, str]] = Counter()
    for holder in record.holders:
        if holder.pod == pod.uid:
            for count in holder.held:
                held[holder.container, count.resource] += count.held
    return any(
        held[container.name, name] < count
        for container in pod.ask.containers
        for name, count in container.counts
        if name in counted
    )


def _lacks_cpus(pods: tuple[PodFacts, ...], record: Record) -> bool:
    asked = sum(pod.ask.cpus for pod in pods if isinstance(pod.ask, PodAsk) and not pod.over)
    return asked > sum(node.exclusive_cpus for node in record.numa_nodes)


def _cpus_alone(ask: PodAsk) -> PodAsk:
    containers = (msgspec.structs.replace(one, counts=(), zeros=()) for one in ask.containers)
    return msgspec.structs.replace(ask, containers=tuple(containers))
