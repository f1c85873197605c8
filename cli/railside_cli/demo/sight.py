"""What a pod's container sees of itself: the device nodes in it, the GPUs it was given, the files it can read.

It must not look anywhere that a container, or the kubelet that started it, could not.
"""

from pathlib import Path
from typing import Final

import msgspec

from railside_cli.demo.hardware import Card, Hardware
from railside_proto.names import CONTAINER_DEVICES, CONTAINER_INFO, GPU_RESOURCE
from railside_sim.pods import Running

_ALLOCATION_FILE: Final = "allocation.json"


class _Gpu(msgspec.Struct):
    uuid: str | None
    path: str


class _Hca(msgspec.Struct):
    name: str
    gpu: _Gpu | None = None


class _Allocation(msgspec.Struct):
    hcas: list[_Hca]


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One line of what the container reads about itself: a GPU, its HCA and the path between them."""

    gpu: Card
    hca: Card
    path: str


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A running pod of one container."""

    pod: str
    hcas: tuple[Card, ...]
    """By the device nodes that are in the container."""
    gpus: tuple[Card, ...]
    nodes: tuple[str, ...]
    """Everything in its /dev/infiniband."""
    told: tuple[Told, ...] = ()


def seen(pod: Running, hardware: Hardware) -> Seen:
    """What ``pod`` sees. Reads a small file that the container has mounted. Raises OSError."""
    nodes = tuple(one.path.removeprefix(f"{CONTAINER_DEVICES}/") for one in pod.devices)
    return Seen(
        pod=pod.pod,
        hcas=tuple(one for one in hardware.hcas if one.key in nodes),
        gpus=tuple(one for one in hardware.gpus if one.key in pod.ids(GPU_RESOURCE)),
        nodes=nodes,
        told=tuple(
            Told(gpu=hardware.gpu(one.gpu.uuid or ""), hca=hardware.called(one.name), path=one.gpu.path)
            for one in _allocation(pod).hcas
            if one.gpu is not None
        ),
    )


def _allocation(pod: Running) -> _Allocation:
    """The file in the container; a pod of another plugin has none."""
    folders = [one.host_path for one in pod.mounts if one.container_path.startswith(f"{CONTAINER_INFO}/")]
    texts = [(Path(folder) / _ALLOCATION_FILE).read_bytes() for folder in folders]
    return msgspec.json.decode(texts[0], type=_Allocation) if texts else _Allocation(hcas=[])
