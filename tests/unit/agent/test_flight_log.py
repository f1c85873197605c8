import msgspec
import pytest
from tests.unit.builders import hca, machine

from railside_agent.flight_log import (
    Began,
    CheckpointSeen,
    Entry,
    Evidence,
    Inputs,
    ListMade,
    News,
    Note,
    PortsSeen,
    SeatLine,
    StartMade,
    TreeSeen,
    Unreadable,
    differences,
    facts_of,
    read,
    read_all,
    write,
)
from railside_agent.holders import Checkpoint, HeldId
from railside_agent.holders import Entry as HeldEntry
from railside_agent.pool_rules import pool_rules
from railside_agent.raw_machine import RawMachine, RawPortState, RawRdmaDevice
from railside_agent.seats import Books
from railside_agent.settings import Settings
from railside_agent.situation import Listed, Situation
from railside_agent.soundness import Course
from railside_agent.virtual_topology import TopologySource
from railside_proto.machine import DeviceNode, PathClass, PciAddress
from railside_proto.names import RESOURCE
from railside_proto.pool import Binding, Mode, Pair
from railside_proto.reasons import Code, reason
from railside_proto.record import TopologyPolicy

_BEGAN = Began(version="1", topology=TopologySource.FILE, pools=tuple(pool_rules(Settings())), at="t", dropped=3)
_STATES = (RawPortState(name="1", state="4: ACTIVE", lid="0x1a"),)
_DEVICE = RawRdmaDevice(
    name="mlx5_0", function="0000:16:00.0", node_guid=None, hca_type="MT4129", ports=(), port_states=_STATES
)
_RAW = RawMachine(
    rdma_devices=(_DEVICE, msgspec.structs.replace(_DEVICE, name="mlx5_1", port_states=None)),
    device_nodes=(DeviceNode(name="uverbs0", major=231, minor=192),),
)
_TREE = msgspec.structs.replace(
    _RAW, rdma_devices=tuple(msgspec.structs.replace(one, port_states=None) for one in _RAW.rdma_devices)
)
_PAIR = Pair(gpu=PciAddress("0000:18:00.0"), hca=PciAddress("0000:16:00.0"), path=PathClass.PIX)
_BINDING = Binding(seats=("n0-s0",), hcas=(PciAddress("0000:16:00.0"),), pod="u1", pairs=(_PAIR,))
_SITUATION = Situation(
    bindings=(_BINDING,),
    mode=Mode.IB_SHARED_MULTI,
    ended=frozenset({"u2"}),
    in_flight=frozenset({"n0-s1"}),
    claimed_gpus=frozenset({PciAddress("0000:29:00.0")}),
    policy=TopologyPolicy.RESTRICTED,
    heard_since=1.5,
    now=1234.567890123,
)
_HELD = HeldEntry(pod="u1", container="main", resource=RESOURCE, ids=(HeldId(id="n0-s0"),), answer=b"\0\xff")
_BOOKS = Books(
    hinted=True,
    listed=(Listed(id="n0-s0", numa_nodes=(0,), held=True, unhealthy_since=0.1),),
    courses={
        PciAddress("0000:16:00.0"): Course(illness=reason(Code.HCA_GONE, address="a"), well_since=2.5, flaps=2)
    },
    checkpoint=Checkpoint(entries=(_HELD,), registered={RESOURCE: frozenset({"n0-s0", "n0-s1"})}),
)
_LINE = SeatLine(healthy=True, nodes=(0,), held=True, hca=PciAddress("0000:16:00.0"))


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(TreeSeen(raw=_TREE), id="tree"),
        pytest.param(TreeSeen(raw=None), id="no-tree"),
        pytest.param(PortsSeen(states={"mlx5_0": _STATES, "mlx5_1": None}), id="ports"),
        pytest.param(CheckpointSeen(content=b"\xff\0{"), id="checkpoint"),
        pytest.param(CheckpointSeen(content=None), id="no-checkpoint"),
        pytest.param(Note(at="t", what="Allocate", facts={"seats": ["n0-s0"], "count": 1}), id="note"),
        pytest.param(
            ListMade(at="t", pool="p", facts=_SITUATION, changed={"n0-s0": _LINE, "n0-s1": None}, books=_BOOKS),
            id="list",
        ),
        pytest.param(
            StartMade(
                at="t",
                pool="p",
                facts=_SITUATION,
                seats=("n0-s0",),
                enforced={"u1": PathClass.PXB},
                binding=_BINDING,
                books=_BOOKS,
            ),
            id="start",
        ),
        pytest.param(
            StartMade(at="t", pool="p", facts=_SITUATION, seats=("n0-s0",), refusal=Code.HCA_GONE), id="refusal"
        ),
    ],
)
def test_what_is_written_is_read(entry: Entry) -> None:
    """Every kind of line comes back as it was, each field of it."""
    assert list(read(write([_BEGAN, entry]))) == [_BEGAN, entry]


_NOTE = Note(at="t", what="one")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param(write([_BEGAN, _NOTE]), 2, id="whole"),
        pytest.param(write([_BEGAN, _NOTE])[:-3], 1, id="cut"),
        pytest.param(write([_BEGAN, _NOTE])[:-3] + b"\n" + write([_BEGAN, _NOTE]), 3, id="cut-and-begun-again"),
        pytest.param(write([_BEGAN]) + b"{}\n" + write([_NOTE]), 1, id="behind-what-makes-no-sense"),
        pytest.param(write([_NOTE, _BEGAN]), 1, id="before-a-beginning"),
        pytest.param(b"\n\n" + write([_BEGAN]) + b"\n" + write([_NOTE]), 2, id="empty-lines"),
        pytest.param(b"\xff\xfe", 0, id="garbage"),
        pytest.param(b"", 0, id="nothing"),
    ],
)
def test_what_rests_on_a_lost_line_is_not_read(text: bytes, count: int) -> None:
    """A line that is cut or makes no sense ends its file, and the next file begins anew."""
    assert len(list(read(text))) == count


@pytest.mark.parametrize(
    ("text", "unreadable"),
    [
        pytest.param(write([_BEGAN, _NOTE]), [], id="whole"),
        pytest.param(write([_BEGAN, _NOTE])[:-3], [Unreadable(line=2, cut=True)], id="cut"),
        pytest.param(write([_BEGAN, _NOTE])[:-1], [], id="whole-but-for-its-end"),
        pytest.param(b"\xff\n" + write([_BEGAN]), [Unreadable(line=1, cut=False)], id="garbage-before"),
        pytest.param(b"\n{}\n\n{}\n", [Unreadable(line=2, cut=False), Unreadable(line=4, cut=False)], id="each"),
        pytest.param(
            b"{}\n{", [Unreadable(line=1, cut=False), Unreadable(line=2, cut=True)], id="only-the-last-is-cut"
        ),
        pytest.param(b"", [], id="nothing"),
    ],
)
def test_lines_that_make_no_sense_are_named(text: bytes, unreadable: list[Unreadable]) -> None:
    """Each such line is told by its number, and whether the text just ends in it."""
    assert [one for one in read_all(text) if isinstance(one, Unreadable)] == unreadable


def test_differences_are_what_makes_one_list_of_the_other() -> None:
    """Seats that came, changed or left, and none that stayed as they were."""
    other = msgspec.structs.replace(_LINE, healthy=False)
    assert differences({"a": _LINE, "b": _LINE, "c": _LINE}, {"a": _LINE, "b": other, "d": _LINE}) == {
        "b": other,
        "c": None,
        "d": _LINE,
    }


def _evidence(raw: RawMachine | None = _RAW, content: bytes | None = b"1") -> Evidence:
    return Evidence(raw=raw, content=content, situation=_SITUATION)


_FALLEN = msgspec.structs.replace(
    _RAW,
    rdma_devices=(
        msgspec.structs.replace(_DEVICE, port_states=(RawPortState(name="1", state="1: DOWN"),)),
        _RAW.rdma_devices[1],
    ),
)


@pytest.mark.parametrize(
    ("now", "kinds"),
    [
        pytest.param(_evidence(), [], id="nothing"),
        pytest.param(_evidence(_FALLEN), [PortsSeen], id="ports"),
        pytest.param(_evidence(content=b"2"), [CheckpointSeen], id="checkpoint"),
        pytest.param(_evidence(content=None), [CheckpointSeen], id="no-checkpoint"),
        pytest.param(_evidence(None), [TreeSeen, PortsSeen], id="no-tree"),
        pytest.param(_evidence(msgspec.structs.replace(_RAW, netns_mode="N")), [TreeSeen], id="tree"),
    ],
)
def test_news_are_what_changed(now: Evidence, kinds: list[type[Entry]]) -> None:
    """The first decision brings all inputs, a later one what is new; put together they are what it rested on."""
    news, inputs = News(), Inputs()
    first = list(news.of(_evidence()))
    second = list(news.of(now))
    for entry in (*first, *second):
        inputs.take(entry)
    assert [type(entry) for entry in first] == [TreeSeen, PortsSeen, CheckpointSeen]
    assert [type(entry) for entry in second] == kinds
    assert (inputs.raw, inputs.content) == (now.raw, now.content)


def test_facts_are_kept_without_what_has_lines_of_its_own() -> None:
    """Machine and checkpoint stand before a decision, and not in it once more."""
    full = msgspec.structs.replace(_SITUATION, machine=machine(hca(1)), checkpoint=Checkpoint(entries=(_HELD,)))
    assert facts_of(full) == msgspec.structs.replace(_SITUATION, checkpoint=None)
