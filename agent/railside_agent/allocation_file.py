"""The files that tell a container, and the agent after its own restart, what the container was given.

It must not touch files: it gives and takes their text.
"""

from typing import Final

import msgspec

from railside_agent.binding import Bound
from railside_agent.container_start import ContainerStart
from railside_proto.decoding import UNDECODABLE
from railside_proto.machine import Hca, PathClass, PciAddress
from railside_proto.names import CONTAINER_DEVICES, NCCL_CONFIG_FILE
from railside_proto.pool import Binding, Pair

ALLOCATION_FILE: Final = "allocation.json"
NAMES_FILE: Final = "hcas"


class GivenGpu(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A GPU of the container that an HCA of it serves."""

    address: PciAddress
    uuid: str | None
    path: str
    """PIX to SYS, as ``nvidia-smi topo -m`` says it."""


class GivenHca(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An HCA of the container."""

    address: PciAddress
    name: str
    node_guid: str
    numa_node: int | None
    device: str
    ports: tuple[int, ...] = ()
    gpu: GivenGpu | None = None


class Allocation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Layout of allocation.json. Later versions may add fields: unknown ones are passed over."""

    seats: tuple[str, ...]
    hcas: tuple[GivenHca, ...]
    pod: str | None = None


def allocation_files(bound: Bound, start: ContainerStart) -> dict[str, str]:
    """Text by file name."""
    names = [hca.name for hca in dict.fromkeys(bound.hcas)]
    return {
        NAMES_FILE: "".join(f"{name}\n" for name in names),
        NCCL_CONFIG_FILE: f"NCCL_IB_HCA=={','.join(names)}\n",
        ALLOCATION_FILE: _text(bound, start),
    }


def read_binding(text: bytes) -> Binding | None:
    """The binding that an allocation.json tells of; None where it is not one."""
    try:
        told = msgspec.json.decode(text, type=Allocation)
        pairs = tuple(_pair(hca.gpu, hca.address) for hca in told.hcas if hca.gpu)
    except (*UNDECODABLE, KeyError):
        return None
    if len(told.seats) != len(told.hcas):
        return None
    return Binding(
        seats=told.seats,
        hcas=tuple(hca.address for hca in told.hcas),
        pod=told.pod,
        pairs=tuple(dict.fromkeys(pairs)),
        guids=tuple(hca.node_guid for hca in told.hcas),
    )


def _text(bound: Bound, start: ContainerStart) -> str:
    uuids = {gpu.address: gpu.uuid for gpu in start.gpus}
    served = {
        pair.hca: GivenGpu(address=pair.gpu, uuid=uuids.get(pair.gpu), path=pair.path.name) for pair in bound.pairs
    }
    hcas = tuple(_given(hca, served.get(hca.address)) for hca in bound.hcas)
    layout = Allocation(seats=bound.seats, hcas=hcas, pod=bound.pod)
    return msgspec.json.format(msgspec.json.encode(layout)).decode() + "\n"


def _given(hca: Hca, gpu: GivenGpu | None) -> GivenHca:
    return GivenHca(
        address=hca.address,
        name=hca.name,
        node_guid=hca.node_guid,
        numa_node=hca.numa_node,
        device=f"{CONTAINER_DEVICES}/{hca.uverbs.name}",
        ports=tuple(port.number for port in hca.ports),
        gpu=gpu,
    )


def _pair(gpu: GivenGpu, hca: PciAddress) -> Pair:
    return Pair(gpu=gpu.address, hca=hca, path=PathClass[gpu.path])
