import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railside_agent.uevent_text import Uevent, concerns_devices, parse_uevent

_DEVPATH = "/devices/pci0000:15/0000:15:01.0/0000:16:00.0/infiniband/mlx5_0"
_PROPERTIES = {"ACTION": "add", "DEVPATH": _DEVPATH, "SUBSYSTEM": "infiniband", "NAME": "mlx5_0", "SEQNUM": "7"}
_TEXT = "".join(f"{key}={value}\0" for key, value in _PROPERTIES.items()).encode()
_EXPECTED = Uevent(action="add", subsystem="infiniband", devpath=_DEVPATH, properties=_PROPERTIES)


def _kernel(text: bytes = _TEXT) -> bytes:
    return b"add@" + _DEVPATH.encode() + b"\0" + text


def _libudev(text: bytes = _TEXT, *, magic: int = 0xFEEDCAFE, begin: int = 40, length: int | None = None) -> bytes:
    lengths = struct.pack("=III", 40, begin, len(text) if length is None else length)
    return b"libudev\0" + struct.pack("!I", magic) + lengths + bytes(16) + text


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(_kernel(), id="kernel"),
        pytest.param(_libudev(), id="libudev"),
        pytest.param(_libudev() + b"behind", id="libudev-with-more-behind"),
        pytest.param(_kernel(_TEXT + b"nonsense\0=empty\0\0"), id="kernel-with-odd-lines"),
    ],
)
def test_both_forms_tell_the_same(message: bytes) -> None:
    """The kernel's form and libudev's carry the same properties."""
    assert parse_uevent(message) == _EXPECTED


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(b"", id="empty"),
        pytest.param(_TEXT, id="no-summary"),
        pytest.param(b"add@/devices/x", id="no-properties"),
        pytest.param(_kernel(_TEXT.replace(b"ACTION", b"REACTION")), id="no-action"),
        pytest.param(_kernel(_TEXT.replace(b"SUBSYSTEM", b"SUB")), id="no-subsystem"),
        pytest.param(_kernel(_TEXT.replace(b"DEVPATH", b"PATH")), id="no-devpath"),
        pytest.param(_libudev(magic=0xCAFE), id="other-magic"),
        pytest.param(_libudev(begin=4), id="properties-in-the-header"),
        pytest.param(_libudev(begin=1 << 31), id="properties-outside"),
        pytest.param(_libudev(length=1 << 20), id="properties-too-long"),
        pytest.param(_libudev()[:20], id="torn-header"),
        pytest.param(b"libudev\0", id="only-a-prefix"),
    ],
)
def test_what_is_no_uevent_is_none(message: bytes) -> None:
    """A message that is torn, or of somebody else, is dropped whole."""
    assert parse_uevent(message) is None


@given(st.binary(max_size=200), st.sampled_from([b"", b"libudev\0", b"libudev\0\xfe\xed\xca\xfe", b"add@/x\0"]))
def test_no_bytes_make_it_raise(content: bytes, prefix: bytes) -> None:
    """Whatever comes over the socket is a uevent or nothing."""
    parsed = parse_uevent(prefix + content)
    assert parsed is None or parsed.action == parsed.properties["ACTION"]


@pytest.mark.parametrize(
    ("subsystem", "devpath", "expected"),
    [
        pytest.param("infiniband", _DEVPATH, True, id="hca"),
        pytest.param("infiniband_verbs", "/devices/x/infiniband_verbs/uverbs0", True, id="device-node"),
        pytest.param("infiniband_mad", "/devices/x/infiniband_mad/umad0", True, id="management-node"),
        pytest.param("pci", "/devices/pci0000:15/0000:15:01.0", True, id="function"),
        pytest.param("misc", "/devices/virtual/misc/rdma_cm", True, id="connection-manager"),
        pytest.param("misc", "/devices/virtual/misc/fuse", False, id="other-misc"),
        pytest.param("net", "/devices/virtual/net/veth1", False, id="a-pods-network"),
        pytest.param("block", "/devices/virtual/block/dm-0", False, id="disk"),
    ],
)
def test_only_what_can_change_the_machine_concerns_us(subsystem: str, devpath: str, expected: object) -> None:
    """HCAs, their nodes and PCI functions count; what pods make and take away all day does not."""
    uevent = Uevent(action="add", subsystem=subsystem, devpath=devpath, properties={})
    assert concerns_devices(uevent) is expected
