r"""Manifests: a machine in a page of text that people can read, compare and change.

One thing a line. Words are split as in a shell (quote what has blanks), ``#`` starts a comment, the order of
lines is free. Square brackets mark what may be left out::

    numa    NUMBER cpus=0-55,112-167 [distances=10,21] [memory_kb=...]
    gpu     PATH numa=0 [model="NVIDIA H800"] [uuid=GPU-...] [minor=0]     without uuid: no driver under /proc
    hca     PATH numa=0 name=mlx5_0 guid=... [uverbs=0] [sys_image_guid=...] [fw=...] [board=...] [type=...]
    port    NAME NUMBER link=InfiniBand state=ACTIVE [phys=LinkUp] [rate=...] [lid=0x1a] [sm_lid=0x1] [umad=0]
    pci     PATH numa=0 vendor=0x10de device=0x22a3 class=0x068000         any other function
    rdma_cm MAJOR:MINOR                                                    the connection manager's node
    netns   exclusive                          each RDMA device is seen by one network namespace alone
    topology                                   virtualTopology.xml of this machine, as a hypervisor writes it
    file    PATH "content"                     last of all: a file (\n and \t are understood) ...
    link    PATH TARGET                        ... a symbolic link, even a dangling one ...
    without PATH                               ... and what is missing on this machine

``PATH`` of a function is its place below /sys/devices: the host bridge, each bridge, the function
(``pci0000:15/0000:15:01.0/0000:16:00.0``; a VMD controller has a host bridge of its own below it), or for a
software RDMA device the word ``virtual`` (without ``numa``). ``gpu``, ``hca`` and ``pci`` also take ``vendor=
device= class= driver= physfn=``; ``numa=-1`` is a function nobody places. ``told=0/ffff:ff:01.0`` is its NUMA
node and the switches above it as virtualTopology.xml tells them, where that is other than here. ``PATH`` of
file, link and without is below the machine's root. A fact that is left out is what a healthy machine of the
kind would show, but for these: an ``hca`` without ``uverbs`` is one whose ib_uverbs is not loaded, and without
``fw``, ``board`` or ``type`` it has no such file.

It answers for this grammar. It must not write anything, and must not reject a machine for being odd.
"""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from railside_proto.machine import LinkLayer, PortState
from railside_sim.lines import Line, ManifestError, Shape, once, read_lines, unescaped
from railside_sim.parts import FunctionPart, GpuPart, HcaPart, Manifest, NumaPart, PortPart

__all__ = ["ManifestError", "parse_manifest", "read_manifest"]

_FUNCTION: Final = ("vendor", "device", "class", "driver", "physfn", "told")
_GRAMMAR: Final = {
    "numa": Shape(places=("NUMBER",), required=("cpus",), optional=("distances", "memory_kb")),
    "gpu": Shape(places=("PATH",), required=("numa",), optional=("model", "uuid", "minor", *_FUNCTION)),
    "hca": Shape(
        places=("PATH",),
        required=("name", "guid"),
        optional=("numa", "uverbs", "sys_image_guid", "fw", "board", "type", *_FUNCTION),
    ),
    "port": Shape(
        places=("NAME", "NUMBER"),
        required=("link", "state"),
        optional=("phys", "rate", "lid", "sm_lid", "umad"),
    ),
    "pci": Shape(
        places=("PATH",),
        required=("numa", "vendor", "device", "class"),
        optional=("driver", "physfn", "told"),
    ),
    "rdma_cm": Shape(places=("MAJOR:MINOR",)),
    "netns": Shape(places=("MODE",)),
    "topology": Shape(),
    "file": Shape(places=("PATH", "CONTENT"), raw=True),
    "link": Shape(places=("PATH", "TARGET"), raw=True),
    "without": Shape(places=("PATH",), raw=True),
}

_ADDRESS: Final = r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_HOST_BRIDGE: Final = r"pci[0-9a-f]{4,}:[0-9a-f]{2}"
_FUNCTION_PATH: Final = rf"{_HOST_BRIDGE}(/{_ADDRESS}|/{_HOST_BRIDGE}(?=/))+"
_TOLD: Final = rf"(-1|\d+)(/{_ADDRESS})*"
_NAME: Final = r"[^/\0]{1,63}(?<!^\.)(?<!^\.\.)"
_GUID: Final = r"[0-9a-f]{4}(:[0-9a-f]{4}){3}"
_NUMBERS: Final = r"\d+:\d+"

_GPU: Final = {"vendor": "0x10de", "device": "0x2324", "class": "0x030200", "driver": "nvidia"}
_HCA: Final = {"vendor": "0x15b3", "device": "0x1021", "class": "0x020700", "driver": "mlx5_core"}
_MEMORY_KB: Final = 1 << 30


def read_manifest(path: Path) -> Manifest:
    """The machine of a manifest file. Raises ManifestError, and OSError where the file cannot be read."""
    return parse_manifest(path.read_text(encoding="utf-8"), origin=path.name)


def parse_manifest(text: str, origin: str = "manifest") -> Manifest:
    """The machine that ``text`` describes; ``origin`` names it in errors. Raises ManifestError."""
    by_word: dict[str, list[Line]] = {word: [] for word in _GRAMMAR}
    for line in read_lines(text, origin, _GRAMMAR):
        by_word[line.word].append(line)
    hcas = by_word["hca"]
    once(hcas, "hca is named", lambda line: line.text("name"))
    once(hcas, "hca has uverbs", lambda line: line.text("uverbs"))
    once([*by_word["gpu"], *hcas, *by_word["pci"]], "function is at", _address)
    ports = _ports(hcas, by_word["port"])
    return Manifest(
        origin=origin,
        numa=tuple(map(_numa, by_word["numa"])),
        gpus=tuple(map(_gpu, by_word["gpu"])),
        hcas=tuple(_hca(line, ports) for line in hcas),
        others=tuple(_function(line, {}) for line in by_word["pci"]),
        rdma_cm=_rdma_cm(by_word["rdma_cm"]),
        netns_exclusive=any(_is_exclusive(line) for line in by_word["netns"]),
        topology=bool(by_word["topology"]),
        files=tuple((_below_root(line), unescaped(line.places[1])) for line in by_word["file"]),
        links=tuple((_below_root(line), line.places[1]) for line in by_word["link"]),
        without=tuple(map(_below_root, by_word["without"])),
    )


def _address(line: Line) -> str:
    return line.places[0].removeprefix("virtual").rpartition("/")[2]


def _numa(line: Line) -> NumaPart:
    distances = [each for each in line.text("distances").split(",") if each]
    return NumaPart(
        number=line.as_integer("the NUMA node", line.places[0]),
        cpus=line.matching("cpus", line.text("cpus"), r"(\d+(-\d+)?(,\d+(-\d+)?)*)?", "0-55,112-167"),
        distances=tuple(line.as_integer("a distance", each) for each in distances),
        memory_kb=line.integer("memory_kb", _MEMORY_KB),
    )


def _function(line: Line, usual: dict[str, str]) -> FunctionPart:
    if "numa" not in line.facts:
        raise line.error("numa= is missing; allowed is a NUMA node's number, or -1 for none")
    path = line.matching("the path", line.places[0], _FUNCTION_PATH, "pci0000:15/0000:15:01.0/0000:16:00.0")
    facts = {fact: line.text(fact, usual.get(fact, "")) for fact in _FUNCTION}
    for fact in ("vendor", "device", "class"):
        example = _HCA[fact]
        line.matching(fact, facts[fact], rf"0x[0-9a-f]{{{len(example) - 2}}}", example)
    return FunctionPart(
        path=tuple(path.split("/")),
        numa=line.integer("numa"),
        vendor=facts["vendor"],
        device=facts["device"],
        pci_class=facts["class"],
        driver=facts["driver"],
        physfn=facts["physfn"],
        told=_told(line, facts["told"]),
    )


def _told(line: Line, told: str) -> tuple[str, ...]:
    if not told:
        return ()
    return tuple(line.matching("told", told, _TOLD, "0/ffff:ff:01.0").split("/"))


def _gpu(line: Line) -> GpuPart:
    return GpuPart(
        function=_function(line, _GPU),
        model=line.text("model"),
        uuid=line.text("uuid"),
        minor=line.integer("minor"),
    )


def _hca(line: Line, ports: dict[str, tuple[PortPart, ...]]) -> HcaPart:
    guid = line.matching("guid", line.text("guid"), _GUID, "5c25:7303:00a1:0000")
    name = line.matching("name", line.text("name"), _NAME, "mlx5_0")
    return HcaPart(
        function=None if line.places[0] == "virtual" else _function(line, _HCA),
        name=name,
        uverbs=line.integer("uverbs") if "uverbs" in line.facts else None,
        guid=guid,
        sys_image_guid=line.text("sys_image_guid", guid),
        firmware=line.text("fw"),
        board=line.text("board"),
        model=line.text("type"),
        ports=ports[name],
    )


def _ports(hcas: Sequence[Line], lines: Sequence[Line]) -> dict[str, tuple[PortPart, ...]]:
    owners: dict[str, tuple[PortPart, ...]] = {}
    for hca in hcas:
        owners[hca.text("name")] = ()
    for line in lines:
        owner = line.one_of("the hca of the port", line.places[0], {name: name for name in owners})
        owners[owner] = (*owners[owner], _port(line))
    return owners


def _port(line: Line) -> PortPart:
    return PortPart(
        number=line.as_integer("the port", line.places[1]),
        link=line.one_of("link", line.text("link"), {str(layer): layer for layer in LinkLayer}),
        state=line.one_of("state", line.text("state"), {state.name: state for state in PortState}),
        phys=line.text("phys", "LinkUp"),
        rate=line.text("rate", "400 Gb/sec (4X NDR)"),
        lid=line.integer("lid"),
        sm_lid=line.integer("sm_lid"),
        umad=line.integer("umad") if "umad" in line.facts else None,
    )


def _rdma_cm(lines: Sequence[Line]) -> tuple[int, int] | None:
    for line in lines[:1]:
        major, minor = line.matching("rdma_cm", line.places[0], _NUMBERS, "10:58").split(":")
        return int(major), int(minor)
    return None


def _is_exclusive(line: Line) -> bool:
    return line.one_of("the mode", line.places[0], {"shared": False, "exclusive": True})


def _below_root(line: Line) -> str:
    path = PurePosixPath(line.places[0])
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise line.error(f"the path is {line.places[0]!r}; allowed is a path below the root, without a leading /")
    return str(path)
