"""A node in the hands of a careless world, for the laws: HCAs, a kubelet, pods, and what the agent keeps.

It shares no code with what it judges beyond the types. It must hold no expectation of its own but ``oracle``.
"""

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

import msgspec
from tests.unit.builders import gpu, hca, port

from railside_agent.binding import Bound
from railside_agent.holders import Checkpoint, Entry, HeldId
from railside_agent.rules import Rules
from railside_agent.seats import Books, Offer, offer
from railside_agent.situation import Situation
from railside_agent.start_decision import StartDecision, decide_start
from railside_proto.machine import Gpu, Hca, Machine, NumaNode, PathClass, PciAddress, PortState, path_class
from railside_proto.names import RESOURCE
from railside_proto.pb import deviceplugin_v1beta1_pb2 as pb
from railside_proto.pool import Binding, Mode, Pool

GPU_RESOURCE = "nvidia.com/gpu"
TOMBSTONE = 60.0
RECOVERY = 10.0

RULES = Rules(
    advertise_topology="auto",
    tombstone_seconds=TOMBSTONE,
    recovery_seconds=RECOVERY,
    report_held_unhealthy=False,
    gpu_resources=(GPU_RESOURCE,),
)


class Card:
    """An HCA as the world has it."""

    def __init__(self, number: int, numa_node: int | None) -> None:
        self.number = number
        self.numa_node = numa_node
        self.present = True
        self.active = True
        self.ill_until = -1e9
        self.known = False
        self.node_number = number

    def seen(self) -> Hca:
        path = (f"pci0000:{self.number // 2:02x}", f"0000:{self.number // 2:02x}:01.0")
        state = PortState.ACTIVE if self.active else PortState.DOWN
        plain = hca(self.number, self.numa_node, path=path, ports=(port(state),))
        node = msgspec.structs.replace(plain.uverbs, name=f"uverbs{self.node_number}", minor=self.node_number)
        return msgspec.structs.replace(plain, uverbs=node)

    @property
    def address(self) -> PciAddress:
        return self.seen().address


def gpu_beside(card: Card) -> Gpu:
    path = (f"pci0000:{card.number // 2:02x}", f"0000:{card.number // 2:02x}:01.0")
    found = gpu(0x80 + card.number, path, card.numa_node)
    return msgspec.structs.replace(found, uuid=f"GPU-{card.number}")


class Pod:
    """A pod with one set of seats for each of its containers."""

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.containers: list[tuple[str, ...]] = []
        self.over = False
        self.started: set[tuple[str, ...]] = set()


class Node:
    """The world, the kubelet and the agent's keeping, with one clock."""

    def __init__(self, nodes: list[int | None], share: int) -> None:
        self.cards = [Card(number, numa_node) for number, numa_node in enumerate(nodes)]
        self.gpus = [gpu_beside(card) for card in self.cards]
        self.numa_nodes = tuple(NumaNode(number=number, cpus=str(number)) for number in (0, 1))
        self.pool = Pool(shares_per_hca=share)
        self.mode: Mode | None = Mode.IB_SHARED
        self.entries: list[Entry] = []
        self.pods: dict[str, Pod] = {}
        self.told_ended: set[str] = set()
        self.strangers: set[str] = set()
        self.registered: frozenset[str] = frozenset()
        self.in_flight: frozenset[str] = frozenset()
        self.readable = True
        self.disk: dict[tuple[str, ...], Binding] = {}
        self.books = Books()
        self.offer = Offer()
        self.now = 1000.0
        self.since_unhealthy: dict[str, float] = {}

    # What the agent sees

    def machine(self) -> Machine:
        here = tuple(card.seen() for card in self.cards if card.present)
        return Machine(numa_nodes=self.numa_nodes, hcas=here, gpus=tuple(self.gpus))

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(entries=tuple(self.entries), registered={RESOURCE: self.registered})

    def situation(self, *, looked: bool = True) -> Situation:
        return Situation(
            machine=self.machine() if looked else None,
            checkpoint=self.checkpoint() if self.readable else None,
            bindings=tuple(self.disk.values()),
            mode=self.mode,
            ended=frozenset(self.told_ended),
            alive=self.living(),
            in_flight=self.in_flight,
            now=self.now,
        )

    # What the agent does

    def list_again(self, *, looked: bool = True) -> None:
        for card in self.cards:
            card.known |= looked and card.present
        self.books, self.offer = offer(self.situation(looked=looked), self.books, self.pool, RULES)

    def start(self, pod: Pod, seats: tuple[str, ...]) -> StartDecision:
        decision = decide_start(seats, self.situation(), self.books, self.pool, RULES, enforced={})
        if isinstance(decision.outcome, Bound):
            for before in decision.replaces(self.disk.values()):
                del self.disk[tuple(sorted(before.seats))]
            self.disk[tuple(sorted(seats))] = decision.outcome.binding
            pod.started.add(seats)
        elif decision.undoes(self.disk.values()):
            self.disk.pop(tuple(sorted(seats)), None)
        return decision

    def restart_agent(self, *, forgets: bool) -> None:
        fresh = (msgspec.structs.replace(one, unhealthy_since=None) for one in self.books.listed)
        kept = () if forgets else tuple(fresh)
        for card in self.cards:
            card.ill_until, card.known = -1e9, False
        self.in_flight = frozenset()
        self.books = Books(hinted=None if forgets else self.books.hinted, listed=kept)

    # What the kubelet does

    def listed(self) -> dict[str, tuple[bool, tuple[int, ...]]]:
        return {one.seat.id: (one.healthy, one.seat.numa_nodes) for one in self.offer.seats}

    def free_ids(self) -> list[str]:
        in_use = self.in_flight.union(*(entry.names for entry in self.entries))
        return [name for name, (healthy, _) in self.listed().items() if healthy and name not in in_use]

    def purge(self) -> None:
        """The kubelet forgets ended pods when it allocates the next time."""
        self.entries = [entry for entry in self.entries if not self.pods[entry.pod].over]

    def deal(self, pod: Pod, ids: Iterable[str], gpus: Iterable[str]) -> None:
        listed = self.listed()
        recorded = tuple(HeldId(id=name, numa_nodes=listed[name][1]) for name in sorted(ids))
        container = f"c{len(pod.containers)}"
        self.entries.append(
            Entry(pod=pod.uid, container=container, resource=RESOURCE, ids=recorded, answer=_OUR_ANSWER)
        )
        given = tuple(HeldId(id=name) for name in gpus)
        if given:
            self.entries.append(Entry(pod=pod.uid, container=container, resource=GPU_RESOURCE, ids=given))
        pod.containers.append(tuple(one.id for one in recorded))

    def call(self, name: str) -> None:
        """An Allocate is under way that the checkpoint does not show yet."""
        self.in_flight = frozenset({name})

    def lose_checkpoint(self) -> None:
        """It starts without its file, and leaves the containers that run alone."""
        self.entries = [entry for entry in self.entries if not self.pods[entry.pod].started]

    def knows(self, pod: Pod) -> bool:
        """Whether it would ask anybody before it starts a container of the pod."""
        return any(entry.pod == pod.uid for entry in self.entries)

    def deal_stranger(self, pod: Pod, name: str, nodes: tuple[int, ...], answer: bytes) -> None:
        """What another plugin's pod holds."""
        ids = (HeldId(id=name, numa_nodes=nodes),)
        self.strangers.add(pod.uid)
        self.entries.append(Entry(pod=pod.uid, container="c0", resource=RESOURCE, ids=ids, answer=answer))

    def acknowledge(self) -> None:
        self.registered = frozenset(name for name, (healthy, _) in self.listed().items() if healthy)

    def free_gpus(self) -> list[str]:
        used = {name for entry in self.entries if entry.resource == GPU_RESOURCE for name in entry.names}
        return [one.uuid for one in self.gpus if one.uuid and one.uuid not in used]

    # What is true

    def living(self) -> frozenset[str]:
        """Pods that the API server says live."""
        return frozenset(uid for uid, pod in self.pods.items() if not pod.over)

    def alive(self, uid: str) -> bool:
        return uid not in self.told_ended

    def held(self) -> set[str]:
        return {name for entry in self.entries if entry.resource == RESOURCE for name in entry.names}

    def users(self, card: Card, ended: Collection[Binding] = ()) -> set[str]:
        """Seats of pods not known to be over that mean the card; what has ``ended`` counts no longer."""
        return {
            seat
            for binding in self.live()
            if binding not in ended
            for seat, address in zip(binding.seats, binding.hcas, strict=True)
            if address == card.address
        }

    def handed_on(self, pod: Pod, seats: tuple[str, ...]) -> list[Binding]:
        """What containers of the pod had that shared some of ``seats``, and end before this one starts."""
        mine = [one for one in self.disk.values() if one.pod == pod.uid and set(one.seats) != set(seats)]
        return [one for one in mine if self.readable and set(one.seats) & set(seats)]

    def live(self) -> Iterator[Binding]:
        for binding in self.disk.values():
            seats = set(binding.seats)
            ours = [one for one in self.entries if one.resource == RESOURCE and self.alive(one.pod)]
            if binding.pod is None:
                # Whose it is nobody knows: whoever was dealt just these seats.
                runs = any(set(one.names) == seats for one in ours) or self.in_flight.issuperset(seats)
            else:
                runs = any(one.pod == binding.pod and set(one.names) & seats for one in ours)
            if runs or binding.pod in self.living():
                yield binding

    def sound(self, card: Card) -> bool:
        return card.present and card.active and self.now >= card.ill_until


def uverbs_answer(names: Iterable[str]) -> bytes:
    """What a plain plugin answers to Allocate."""
    devices = [pb.DeviceSpec(host_path=f"/dev/infiniband/{name}") for name in names]
    return pb.ContainerAllocateResponse(devices=devices).SerializeToString()


_OUR_ANSWER = pb.ContainerAllocateResponse(
    devices=[pb.DeviceSpec(host_path="/run/railside/alloc/0123/ib")]
).SerializeToString()


def nearest_possible(
    gpus: list[Gpu], free: dict[str, list[Hca]], kept: list[Hca], needed: Counter[str]
) -> tuple[PathClass, ...]:
    """By trying every choice: the path classes of the nearest one, for distinct HCAs."""
    choices = itertools.product(*(itertools.combinations(free[zone], needed[zone]) for zone in sorted(needed)))
    every = [
        tuple(sorted(path_class(here, there) for here, there in zip(some, order, strict=True)))
        for parts in choices
        for hcas in [[*kept, *(one for part in parts for one in part)]]
        for some in itertools.combinations(gpus, min(len(gpus), len(hcas)))
        for order in itertools.permutations(hcas, len(some))
    ]
    return min(every)
