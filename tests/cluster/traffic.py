"""Pods that come and go by chance: with GPUs and as many HCAs, with GPUs alone, with HCAs alone, in many shapes.

It answers for what is asked of a node. It must not know what is given.
"""

import itertools
import random
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from looking_inside import SAYS
from railside_proto.names import GPU_RESOURCE, RESOURCE

ROOM: Final = 8
"""GPUs and HCAs of the machine."""


class Ask(NamedTuple):
    """What one container asks for."""

    gpus: int
    hcas: int


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What the containers of a pod ask for, in their order."""

    main: tuple[Ask, ...]
    init: tuple[Ask, ...] = ()
    sidecars: tuple[Ask, ...] = ()

    @property
    def total(self) -> Ask:
        """What the scheduler counts: init containers end before the others begin, sidecars do not."""
        sums = (self._total([one[field] for one in self.main], field) for field in range(2))
        return Ask(*sums)

    def _total(self, main: list[int], field: int) -> int:
        before = max((one[field] for one in self.init), default=0)
        return sum(one[field] for one in self.sidecars) + max(sum(main), before)

    def containers(self) -> dict[str, Ask]:
        """All of them by name, in the order in which they start."""
        named = {"init": self.init, "sidecar": self.sidecars, "main": self.main}
        return {
            f"{kind}-{number}": ask for kind, asks in named.items() for number, ask in enumerate(asks, start=1)
        }


def _of(*main: tuple[int, int], init: tuple[Ask, ...] = (), sidecars: tuple[Ask, ...] = ()) -> Shape:
    return Shape(main=tuple(itertools.starmap(Ask, main)), init=init, sidecars=sidecars)


SHAPES: Final = {
    "one": (_of((1, 1)), 6),
    "two": (_of((2, 2)), 4),
    "four": (_of((4, 4)), 2),
    "gpu-only": (_of((1, 0)), 4),
    "gpus-only": (_of((2, 0)), 2),
    "hca-only": (_of((0, 1)), 4),
    "hcas-only": (_of((0, 2)), 3),
    "pair": (_of((1, 1), (1, 1)), 2),
    "uneven": (_of((2, 2), (1, 1)), 1),
    "tested": (_of((1, 1), init=(Ask(1, 1),)), 1),
    "fetched": (_of((2, 2), init=(Ask(0, 2),)), 2),
    "prepared": (_of((1, 1), (1, 1), init=(Ask(0, 2),)), 2),
    "wide": (_of((1, 1), init=(Ask(2, 2),)), 2),
    "watched": (_of((1, 1), sidecars=(Ask(0, 1),)), 1),
}
"""Shapes of pods, and how often they come."""


class Step(NamedTuple):
    """Pods that go, and then pods that come, by name."""

    leaving: tuple[str, ...]
    coming: dict[str, Shape]


class Traffic:
    """Draws what comes next; what lives is passed in."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._numbers = itertools.count(1)

    def step(self, living: Mapping[str, Shape]) -> Step:
        """Some pods leave, more of them where nothing else fits; then up to four come at once."""
        leaving = self._rng.sample(sorted(living), min(len(living), self._rng.choice((1, 2, 3, 4))))
        while True:
            staying = {name: shape for name, shape in living.items() if name not in leaving}
            coming = self._coming(_left(staying))
            if coming:
                return Step(tuple(leaving), coming)
            leaving.append(self._rng.choice(sorted(staying)))

    def _coming(self, room: Ask) -> dict[str, Shape]:
        coming: dict[str, Shape] = {}
        for _ in range(self._rng.choice((1, 2, 3, 4))):
            (kind,) = self._rng.choices([*SHAPES], [weight for _, weight in SHAPES.values()])
            shape, _ = SHAPES[kind]
            if shape.total.gpus <= room.gpus and shape.total.hcas <= room.hcas:
                coming[f"{kind}-{next(self._numbers)}"] = shape
                room = Ask(room.gpus - shape.total.gpus, room.hcas - shape.total.hcas)
        return coming


def _left(living: Mapping[str, Shape]) -> Ask:
    taken = [shape.total for shape in living.values()]
    return Ask(ROOM - sum(one.gpus for one in taken), ROOM - sum(one.hcas for one in taken))


def manifest(name: str, shape: Shape) -> dict[str, Any]:
    """The pod; each container says what it sees, and all but init containers stay until they are told to end."""
    containers = {named: _container(named, ask) for named, ask in shape.containers().items()}
    before = [one for named, one in containers.items() if not named.startswith("main")]
    main = [one for named, one in containers.items() if named.startswith("main")]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"initContainers": before, "containers": main, "terminationGracePeriodSeconds": 1},
    }


def _container(name: str, ask: Ask) -> dict[str, Any]:
    counts = {GPU_RESOURCE: ask.gpus, RESOURCE: ask.hcas}
    ends = name.startswith("init")
    container = {
        "name": name,
        "image": "busybox",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", SAYS if ends else f"{SAYS}trap 'exit 0' TERM; sleep 100000 & wait"],
        "resources": {"limits": {resource: count for resource, count in counts.items() if count}},
    }
    return {**container, "restartPolicy": "Always"} if name.startswith("sidecar") else container
