"""What is asked of the embedded kubelet, as values: pods, their containers and what these ask for.

It answers for their shape and for the sums that others make of them. It must not do anything.
"""

from collections.abc import Iterator, Mapping

import msgspec

MAIN = "main"


class ContainerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One container and its limits by resource, which may be 0; ``restartable`` makes an init one a sidecar.

    Resources that no plugin ever registered (``cpu``) are carried and never dealt.
    """

    name: str = MAIN
    requests: Mapping[str, int] = {}
    restartable: bool = False

    def __post_init__(self) -> None:
        """Refuses less than 0 with ValueError, as the API server does."""
        for resource, count in self.requests.items():
            if count < 0:
                raise ValueError(f"container {self.name} asks for {count} of {resource}; allowed is 0 or more")


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod as its kubelet is told of it. ``uid`` is made by the kubelet where it is empty.

    A ``static`` one comes from the node's own files, so that no scheduler counts before the kubelet does.
    """

    name: str
    namespace: str = "default"
    uid: str = ""
    containers: tuple[ContainerSpec, ...]
    init_containers: tuple[ContainerSpec, ...] = ()
    static: bool = False

    def __post_init__(self) -> None:
        """Refuses two containers of one name, and a pod of none, with ValueError."""
        every = [container.name for container in self.in_order()]
        if not self.containers or len(set(every)) != len(every):
            raise ValueError(
                f"pod {self.name} has containers {every}; allowed are one or more, of different names"
            )

    @property
    def key(self) -> str:
        """The name, after its namespace where that is not the default one."""
        return self.name if self.namespace == "default" else f"{self.namespace}/{self.name}"

    def in_order(self) -> Iterator[ContainerSpec]:
        """Init containers and sidecars, then the others: the order in which all are dealt their devices."""
        yield from self.init_containers
        yield from self.containers

    def is_ending(self, container: ContainerSpec) -> bool:
        """Whether the container ends before the next begins, so that its devices are used again."""
        return container in self.init_containers and not container.restartable

    def total(self) -> dict[str, int]:
        """What the whole pod needs at its hungriest moment, by resource (component-helpers: PodLimits)."""
        beside = _sum(self.containers)
        sidecars: dict[str, int] = {}
        starting: dict[str, int] = {}
        for container in self.init_containers:
            moment = _added(sidecars, container.requests)
            starting = {name: max(count, starting.get(name, 0)) for name, count in {**starting, **moment}.items()}
            if container.restartable:
                sidecars = moment
        running = _added(sidecars, beside)
        every = [*running, *(name for name in starting if name not in running)]
        return {name: max(running.get(name, 0), starting.get(name, 0)) for name in every}


def _sum(containers: tuple[ContainerSpec, ...]) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in containers:
        total = _added(total, container.requests)
    return total


def _added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
