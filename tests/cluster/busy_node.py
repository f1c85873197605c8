"""A node on which pods come and go by chance: what each was given, and what it could have been given.

It answers for looking, from inside the containers and at the kubelet's books, and for the comparison. It must not
know who deals.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from dealers import Dealer
from gpus_beside import hca_nodes, machine, partners
from harness import waiting
from harness.kubectl import Kubectl
from harness.objects import Pod
from looking_inside import Inside, inside
from nearness import paired, possible
from railside_proto import names
from railside_sim import checkpoint
from railside_sim.pod_devices import Entry
from test_document import remove
from traffic import Shape, Step, Traffic, manifest

BOOKS_S = 5.0


class Hand(msgspec.Struct, frozen=True, kw_only=True):
    """Ids that the kubelet dealt to a container, or to an init container and then to the main one."""

    pod: str
    seats: dict[str, int]
    """NUMA node by id."""
    gpus: frozenset[str]
    hcas: frozenset[str]
    """Device nodes, as seen inside."""

    def shares_ids(self, other: "Hand") -> bool:
        """Whether both are of one pod and were dealt an id twice, which the kubelet does for init containers."""
        return self.pod == other.pod and not self.seats.keys().isdisjoint(other.seats)


class Dealt:
    """What the kubelet dealt to the containers of a pod, by its checkpoint."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries

    def gpus(self, container: str) -> frozenset[str]:
        """UUIDs of a container's GPUs."""
        return frozenset().union(*(one.dealt.ids for one in self._of(names.GPU_RESOURCE, container)))

    def seats(self, container: str) -> dict[str, int]:
        """NUMA node of a container's ids of HCAs."""
        nodes = [node for one in self._of(names.RESOURCE, container) for node in one.dealt.by_node.items()]
        return {seat: node for node, seats in nodes for seat in seats}

    def alike(self) -> list[list[str]]:
        """Containers with HCAs, those with the same ids together."""
        groups: dict[frozenset[str], list[str]] = {}
        for one in self._entries:
            if one.resource == names.RESOURCE:
                groups.setdefault(one.dealt.ids, []).append(one.container)
        return [*groups.values()]

    def _of(self, resource: str, container: str) -> list[Entry]:
        return [one for one in self._entries if (one.resource, one.container) == (resource, container)]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One hand beside what the oracle would have had it hold."""

    hand: Hand
    paired: int
    possible: int

    @property
    def text(self) -> str:
        gpus = ", ".join(sorted(self.hand.gpus))
        return f"{self.hand.pod} ({gpus}) on {sorted(self.hand.hcas)}: {self.paired} of {self.possible}"


class BusyNode:
    """Runs traffic on the cluster's one node."""

    def __init__(self, kubectl: Kubectl, plugins: Path, dealer: Dealer, rng: random.Random) -> None:
        """``plugins`` is the kubelet's folder with its checkpoint."""
        self.outcomes: list[Outcome] = []
        self.problems: list[str] = []
        """What must never be."""
        self._kubectl = kubectl
        self._checkpoint = plugins / names.KUBELET_CHECKPOINT
        self._dealer = dealer
        self._traffic = Traffic(rng)
        self._living: dict[str, Shape] = {}
        self._hands: list[Hand] = []
        self._ended: list[Hand] = []
        """Of init containers of living pods that have handed on their ids."""
        self._seen = len(dealer.starts())
        self._partners = partners(machine())
        self._nodes = hca_nodes(machine())

    @property
    def short(self) -> list[str]:
        """Where less was given than could be."""
        return [one.text for one in self.outcomes if one.paired < one.possible]

    def count(self) -> Counter[str]:
        """Totals of all that asked for GPUs and HCAs."""
        return Counter(
            gpus=sum(len(one.hand.gpus) for one in self.outcomes),
            paired=sum(one.paired for one in self.outcomes),
            possible=sum(one.possible for one in self.outcomes),
        )

    def step(self) -> None:
        """Some pods go, and some come; returns when all that came run and were looked at."""
        step = self._traffic.step(self._living)
        self._remove(step)
        self._kubectl.apply({"apiVersion": "v1", "kind": "List", "items": _manifests(step)})
        pods = [self._kubectl.wait(Pod, name, lambda pod: pod.running, timeout_s=60) for name in step.coming]
        self._living |= step.coming
        came = {frozenset(hand.seats): hand for pod in pods for hand in self._look(pod)}
        started = self._dealer.starts()
        # An init container and the main one may start with the same ids: that is one choice.
        for ids in dict.fromkeys(started[self._seen :]):
            self._judge(came.pop(ids))
        self._seen = len(started)
        self.problems += [f"{hand.pod} runs, and nobody let it start" for hand in came.values()]
        self._compare_books()

    def clear(self) -> None:
        """All pods go."""
        self._remove(Step(tuple(self._living), {}))

    def _remove(self, step: Step) -> None:
        if step.leaving:
            remove(self._kubectl, *step.leaving)
        self._living = {name: shape for name, shape in self._living.items() if name not in step.leaving}
        self._hands = [hand for hand in self._hands if hand.pod not in step.leaving]
        self._ended = [hand for hand in self._ended if hand.pod not in step.leaving]

    def _look(self, pod: Pod) -> Iterator[Hand]:
        """What a pod's containers hold, by the kubelet and from inside."""
        name = pod.metadata.name
        dealt = Dealt([one for one in checkpoint.read(self._checkpoint).entries if one.uid == pod.metadata.uid])
        views = {one: inside(self._kubectl, name, one) for one in self._living[name].containers()}
        self.problems += [
            f"{one} of {name} sees {views[one]}, and was dealt {dealt.gpus(one)} and {dealt.seats(one)}"
            for one in views
            if dealt.gpus(one) != set(views[one].gpus) or len(dealt.seats(one)) != len(views[one].nodes)
        ]
        for alike in dealt.alike():
            self.problems += _unlike(name, [views[one] for one in alike], self._dealer.numbers)
            gpus = frozenset().union(*(dealt.gpus(one) for one in alike))
            hcas = frozenset(views[alike[-1]].nodes)
            yield Hand(pod=name, seats=dealt.seats(alike[-1]), gpus=gpus, hcas=hcas)

    def _judge(self, hand: Hand) -> None:
        others = [one for one in self._hands if not hand.shares_ids(one)]
        taken = {hca: one.pod for one in others for hca in one.hcas}
        self.problems += [
            f"{hand.pod} has {hca}, and so has {taken[hca]}" for hca in sorted(hand.hcas & taken.keys())
        ]
        seats = Counter(hand.seats.values())
        places = Counter(self._nodes[hca] for hca in hand.hcas)
        self.problems += [f"{hand} has HCAs of other NUMA nodes: {places}"] if places != seats else []
        free = {
            node: [hca for hca, place in self._nodes.items() if place == node and hca not in taken]
            for node in seats
        }
        gpus = sorted(hand.gpus)
        outcome = Outcome(
            hand=hand,
            paired=paired(gpus, hand.hcas, self._partners),
            possible=possible(gpus, seats, free, self._partners),
        )
        self.outcomes.append(outcome)
        self._ended += [one for one in self._hands if hand.shares_ids(one)]
        self._hands = [one for one in self._hands if not hand.shares_ids(one)] + [hand]

    def _compare_books(self) -> None:
        """The agent hears of the end of pods a moment later than we do."""
        hands = self._hands if self._dealer.forgets else [*self._ended, *self._hands]
        seen = {frozenset(hand.seats): set(hand.hcas) for hand in hands}
        with suppress(TimeoutError):
            return waiting.until(lambda: self._dealer.books() in (None, seen), "the books to be true", BOOKS_S)
        self.problems.append(f"the books say {self._dealer.books()}, and inside is {seen}")
        return None


def _manifests(step: Step) -> list[dict[str, object]]:
    return [manifest(name, shape) for name, shape in step.coming.items()]


def _unlike(pod: str, views: list[Inside], numbers: Mapping[str, object]) -> Iterator[str]:
    """What containers with the same ids see differently, or otherwise than they are told."""
    for view in views:
        if view.nodes != views[0].nodes:
            yield f"containers of {pod} with the same ids see {sorted(views[0].nodes)} and {sorted(view.nodes)}"
        if any(numbers[name] != number for name, number in view.nodes.items()):
            yield f"{pod} sees {view.nodes}, whose numbers are {numbers}"
        told = view.allocation
        if told and sorted(view.nodes) != sorted(one["device"].rpartition("/")[2] for one in told["hcas"]):
            yield f"{pod} sees {sorted(view.nodes)} and is told {told}"
        if told and sorted(view.hcas) != sorted(one["name"] for one in told["hcas"]):
            yield f"{pod} is told {view.hcas} and {told}"
