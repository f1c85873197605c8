"""What decisions about a pool rest on, in few words: a test names only the facts that it is about.

It must hold no expectation. HCA number 1 is the one of ``hca(1)``, seats are recorded where their names say.
"""

from collections.abc import Iterable, Mapping

import msgspec
from tests.unit.builders import gpu, hca, machine

from railside_agent.holders import Checkpoint, Entry, HeldId
from railside_agent.rules import Rules
from railside_agent.seat_names import node_of, zone_of
from railside_agent.seats import Books, Offer, offer
from railside_agent.situation import Situation
from railside_agent.soundness import Courses, follow
from railside_agent.usage import Usage, usage
from railside_proto.machine import Gpu, Hca, PciAddress
from railside_proto.names import RESOURCE
from railside_proto.pb import deviceplugin_v1beta1_pb2 as pb
from railside_proto.pool import Binding, Pool

GPU_RESOURCE = "nvidia.com/gpu"
POOL = Pool()
RULES = Rules(
    advertise_topology="auto",
    tombstone_seconds=60.0,
    recovery_seconds=10.0,
    report_held_unhealthy=False,
    gpu_resources=(GPU_RESOURCE, "nvidia.com/mig-*"),
)


def rules(**facts: object) -> Rules:
    return msgspec.structs.replace(RULES, **facts)


def address(number: int) -> PciAddress:
    return hca(number).address


def placed(number: int, numa_node: int | None = 0, **facts: object) -> Hca:
    """An HCA below a root port of its own."""
    return hca(number, numa_node, **{"path": _root_port(number), **facts})


def beside(number: int, numa_node: int | None = 0, *, device: int = 0x80) -> Gpu:
    """A GPU on the switch of HCA ``number``, called ``GPU-number`` by the kubelet."""
    return msgspec.structs.replace(gpu(device + number, _root_port(number), numa_node), uuid=f"GPU-{number}")


def _root_port(number: int) -> tuple[str, ...]:
    return (f"pci0000:{number:02x}", f"0000:{number:02x}:01.0")


def held(name: str, *numa_nodes: int) -> HeldId:
    return HeldId(id=name, numa_nodes=numa_nodes)


def entry(pod: str, *names: str, container: str = "main", **facts: object) -> Entry:
    """What a container was dealt of our resource, with the hints that its seats' names tell."""
    ids = tuple(HeldId(id=name, numa_nodes=node_of(zone_of(name))) for name in names)
    plain = Entry(pod=pod, container=container, resource=RESOURCE, ids=ids)
    return msgspec.structs.replace(plain, **facts)


def gpus_of(pod: str, *names: str, container: str = "main", resource: str = GPU_RESOURCE) -> Entry:
    ids = tuple(HeldId(id=name) for name in names)
    return Entry(pod=pod, container=container, resource=resource, ids=ids)


def binding(pod: str | None, **numbers: int) -> Binding:
    """Seats, ``_`` for ``-``, and the numbers of the HCAs that they mean."""
    seats = tuple(name.replace("_", "-") for name in numbers)
    hcas = tuple(map(hca, numbers.values()))
    addresses, guids = tuple(one.address for one in hcas), tuple(one.node_guid for one in hcas)
    return Binding(seats=seats, hcas=addresses, pod=pod, guids=guids)


def situation(*hcas: Hca, entries: Iterable[Entry] = (), gpus: Iterable[Gpu] = (), **facts: object) -> Situation:
    plain = Situation(machine=machine(*hcas, gpus=tuple(gpus)), checkpoint=Checkpoint(entries=tuple(entries)))
    return msgspec.structs.replace(plain, **facts)


def used(now: Situation, *, pool: Pool = POOL, by: Rules = RULES, courses: Courses | None = None) -> Usage:
    """The usage of ``now``, with every HCA as it is since ever unless ``courses`` tell otherwise."""
    if courses is None:
        courses = follow({}, now.machine, now.now) if now.machine else {}
    return usage(now, courses, pool, by)


def listed(now: Situation, *, books: Books | None = None, pool: Pool = POOL, by: Rules = RULES) -> Offer:
    return offer(now, books or Books(), pool, by)[1]


def free(one: Offer) -> list[str]:
    """Ids that can be dealt."""
    return [seat.seat.id for seat in one.seats if seat.healthy and not seat.held]


def ids(one: Offer) -> list[str]:
    return [seat.seat.id for seat in one.seats]


def answer(*host_paths: str, mounts: Iterable[str] = ()) -> bytes:
    """A plugin's answer to Allocate, as the kubelet keeps it."""
    devices = [pb.DeviceSpec(host_path=path) for path in host_paths]
    return pb.ContainerAllocateResponse(
        devices=devices, mounts=[pb.Mount(host_path=path) for path in mounts]
    ).SerializeToString()


def acknowledging(now: Situation, names: Iterable[str]) -> Situation:
    """``now``, the kubelet counting ``names`` as healthy."""
    before = now.checkpoint or Checkpoint()
    registered: Mapping[str, frozenset[str]] = {RESOURCE: frozenset(names)}
    return msgspec.structs.replace(now, checkpoint=msgspec.structs.replace(before, registered=registered))
