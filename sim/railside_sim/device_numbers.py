"""The character devices of a machine's RDMA devices, and the numbers the kernel gives them.

It answers for names, numbers and modes (include/uapi and drivers/infiniband/core: major 231 with uverbs from
minor 192, umad from 0, issm from 64, 32 of each, then dynamic majors; udev: uverbs and rdma_cm 0666, the
others 0600). It must not make any node.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from railside_proto.machine import DeviceNode, LinkLayer
from railside_sim.parts import HcaPart, Manifest, PortPart

_MAJOR: Final = 231
_FIXED: Final = 32
_FIRST_MINOR: Final = {"uverbs": 192, "umad": 0, "issm": 64}
_DYNAMIC_MAJOR: Final = {"uverbs": 511, "umad": 510, "issm": 509}
_OPEN_TO_ALL: Final = 0o666
_ROOT_ONLY: Final = 0o600

Numbers = Mapping[str, tuple[int, int]]
"""Major and minor by the node's name (``uverbs0``): stand-ins for the kernel's own."""


def rdma_nodes(manifest: Manifest, overrides: Numbers) -> dict[str, DeviceNode]:
    """Every node under /dev/infiniband by name, with the numbers of ``overrides`` where it has them."""
    return {name: _node(name, overrides.get(name, numbers)) for name, numbers in _all_numbers(manifest)}


def mad_names(port: PortPart) -> tuple[str, ...]:
    """The management nodes of a port: umad, and issm where a subnet manager could run."""
    if port.umad is None:
        return ()
    issm = (f"issm{port.umad}",) if port.link is LinkLayer.INFINIBAND else ()
    return (f"umad{port.umad}", *issm)


def _all_numbers(manifest: Manifest) -> Iterator[tuple[str, tuple[int, int]]]:
    for hca in manifest.hcas:
        yield from ((name, _kernel_numbers(name)) for name in _names(hca))
    if manifest.rdma_cm is not None:
        yield "rdma_cm", manifest.rdma_cm


def _names(hca: HcaPart) -> tuple[str, ...]:
    uverbs = () if hca.uverbs is None else (f"uverbs{hca.uverbs}",)
    return (*uverbs, *(name for port in hca.ports for name in mad_names(port)))


def _kernel_numbers(name: str) -> tuple[int, int]:
    kind = name.rstrip("0123456789")
    number = int(name.removeprefix(kind))
    if number < _FIXED:
        return _MAJOR, _FIRST_MINOR[kind] + number
    return _DYNAMIC_MAJOR[kind], number - _FIXED


def _node(name: str, numbers: tuple[int, int]) -> DeviceNode:
    mode = _ROOT_ONLY if name.startswith(("umad", "issm")) else _OPEN_TO_ALL
    return DeviceNode(name=name, major=numbers[0], minor=numbers[1], mode=mode)
