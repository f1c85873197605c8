"""Understands virtualTopology.xml: where a hypervisor says that functions sit, in the form that NCCL reads.

It takes any text, as the file is made by others: what makes no sense is one Reason. It must not decide whether
the file or sysfs is to be believed, and reads nothing.

Two-level switches stay as they stand in the file, though NCCL makes one of some: ``nvidia-smi topo -m`` tells
them apart too, and of two HCAs below them the nearer one is to be had.
"""

import enum
import re
from collections import Counter
from collections.abc import Mapping
from typing import Final, NoReturn
from xml.etree import ElementTree as ET

import msgspec

from railside_agent.kernel_text import integer, pci_address
from railside_proto.machine import PciAddress
from railside_proto.reasons import Code, Reason, reason

MOST_ELEMENTS: Final = 20_000
DEEPEST: Final = 64
"""NCCL itself takes 256 nodes, and PCIe has no room for so many bridges in a row."""

_BUS_ID: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", re.IGNORECASE)


class TopologySource(enum.StrEnum):
    """Where the paths of functions are taken from, in the words of the settings."""

    AUTO = "auto"
    """The file, where the kernel shows a flat tree, or no NUMA node for anything that the file places."""
    SYSFS = "sysfs"
    FILE = "file"
    """The file, for every function that it places."""


class ToldPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where the file puts one function."""

    path: tuple[str, ...]
    """The place of its NUMA node (``cpu0``) and each switch down to the function."""
    numa_node: int | None


class VirtualTopology(msgspec.Struct, frozen=True, kw_only=True):
    """What the file tells."""

    places: Mapping[PciAddress, ToldPlace]
    """By exact address; a function that is told in two places is told in none."""


def virtual_topology(text: str) -> VirtualTopology | Reason:
    """What ``text`` tells, or why it tells nothing."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        return _unreadable("it declares a document type, which this format has not")
    reader = _Reader()
    parser = ET.XMLParser(target=reader)  # noqa: S314 -- no document type, so no entities; depth and size have bounds
    try:
        parser.feed(text)
        parser.close()
    except _TooMuchError as error:
        return _unreadable(str(error))
    except (ET.ParseError, ValueError) as error:
        return _unreadable(f"it is not XML ({error})")
    return reader.topology or _unreadable("it places no function")


class _TooMuchError(Exception):
    """Raised within the parser where the text has more than any real file; ``virtual_topology`` tells it."""


class _Switch(msgspec.Struct, kw_only=True):
    """An element that is open: a ``cpu``, or a ``pci`` that may turn out to be a switch."""

    name: str
    numa_node: int | None
    address: PciAddress | None = None
    has_functions: bool = False


class _Reader:
    """Follows the parser; what is open stands in a stack, so that nesting takes no recursion."""

    def __init__(self) -> None:
        self._open: list[_Switch | None] = []
        self._elements = 0
        self._names: Counter[str] = Counter()
        self._places: dict[PciAddress, ToldPlace] = {}
        self._told: Counter[PciAddress] = Counter()

    @property
    def topology(self) -> VirtualTopology | None:
        """All that was told once; None if that is nothing."""
        places = {address: place for address, place in self._places.items() if self._told[address] == 1}
        return VirtualTopology(places=places) if places else None

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Take the beginning of an element."""
        self._elements += 1
        if self._elements > MOST_ELEMENTS or len(self._open) >= DEEPEST:
            _too_much()
        self._open.append(self._opened(tag, attributes))

    def end(self, _tag: str) -> None:
        """Take the end of an element: a ``pci`` without others in it is a function."""
        closed = self._open.pop()
        above = [one for one in self._open if one is not None]
        if closed is None or closed.address is None or not above:
            return
        above[-1].has_functions = True
        if closed.address and not closed.has_functions:
            place = ToldPlace(path=tuple(one.name for one in above), numa_node=above[0].numa_node)
            self._places[closed.address] = place
            self._told[closed.address] += 1

    def _opened(self, tag: str, attributes: Mapping[str, str]) -> _Switch | None:
        match tag:
            case "cpu":
                number = integer(attributes.get("numaid"))
                known = number if number is not None and number >= 0 else None
                return _Switch(name=f"cpu{known}" if known is not None else self._once("cpu"), numa_node=known)
            case "pci":
                bus_id = attributes.get("busid", "")
                address = pci_address(bus_id) if _BUS_ID.fullmatch(bus_id) else None
                name = self._once(address or "0000:00:00.0")
                return _Switch(name=name, numa_node=None, address=address or PciAddress(""))
            case _:
                return None

    def _once(self, name: str) -> str:
        """``name``, or something like it where an earlier element has it: switches may have made-up ids."""
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name}#{self._names[name]}"


def _too_much() -> NoReturn:
    raise _TooMuchError(f"it has more than {MOST_ELEMENTS} elements, or more than {DEEPEST} within each other")


def _unreadable(detail: str) -> Reason:
    return reason(Code.VIRTUAL_TOPOLOGY_UNREADABLE, detail=detail)
