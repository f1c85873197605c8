import pytest
from tests.unit.builders import hca, port

from railside_proto.machine import LinkLayer, PciAddress, RdmaDevice
from railside_proto.names import RESOURCE
from railside_proto.pool import Functions, Mode, Pool, Selector, selects


def test_a_pool_is_called_by_the_last_word_of_its_resource() -> None:
    """The name of a pool is fit for file names."""
    assert Pool(resource="example.org/rdma").name == "rdma"


def test_the_default_pool_is_the_platforms() -> None:
    """Without settings the platform's resource is offered, for InfiniBand devices."""
    assert (Pool().resource, Pool().selector.link_layer) == (RESOURCE, LinkLayer.INFINIBAND)


@pytest.mark.parametrize(("mode", "share"), [(Mode.IB_SHARED, 1), (Mode.IB_SHARED_MULTI, 4), (None, 0)])
def test_how_many_containers_an_hca_may_serve(mode: Mode | None, share: int) -> None:
    """One, or the pool's number, or none where nobody chose a mode."""
    assert share == Pool(shares_per_hca=4).share(mode)


@pytest.mark.parametrize(
    ("mode", "text"), [(Mode.IB_SHARED, "ib-shared"), (Mode.IB_SHARED_MULTI, "ib-shared-multi")]
)
def test_modes_are_spelt_as_on_the_node(mode: Mode, text: str) -> None:
    """A mode is spelt as the platform's document spells the node label's value."""
    assert text == str(mode)


_ROCE = hca(1, ports=(port(link_layer=LinkLayer.ETHERNET),))
_BOTH = hca(2, ports=(port(), port(number=2, link_layer=LinkLayer.ETHERNET)))
_VIRTUAL = hca(3, parent=PciAddress("0000:01:00.0"), parent_seen=True)
_ORPHAN = hca(4, parent=PciAddress("0000:01:00.0"))
_SOFTWARE = hca(5, address=PciAddress("guid:5c25:7303:00a1:4c10"))


@pytest.mark.parametrize(
    ("selector", "device", "expected"),
    [
        (Selector(), hca(0), True),
        (Selector(), _ROCE, False),
        (Selector(), _BOTH, True),
        (Selector(), hca(0, ports=()), False),
        (Selector(), _VIRTUAL, False),
        (Selector(), _ORPHAN, True),
        (Selector(), _SOFTWARE, False),
        (Selector(software=True), _SOFTWARE, True),
        (Selector(software=True, functions=Functions.VIRTUAL), _SOFTWARE, True),
        (Selector(software=True), hca(0), True),
        (Selector(functions=Functions.PHYSICAL), _ORPHAN, False),
        (Selector(functions=Functions.PHYSICAL), hca(0), True),
        (Selector(functions=Functions.VIRTUAL), _VIRTUAL, True),
        (Selector(functions=Functions.VIRTUAL), hca(0), False),
        (Selector(functions=Functions.ALL), _VIRTUAL, True),
        (Selector(link_layer=LinkLayer.ETHERNET), _ROCE, True),
        (Selector(link_layer=LinkLayer.ETHERNET), hca(0), False),
    ],
)
def test_what_a_selector_takes(selector: Selector, device: RdmaDevice, *, expected: bool) -> None:
    """One port of the link layer and the right kind of function make a device the selector's (B-DP-20)."""
    assert expected == selects(selector, device)


def test_a_device_that_two_pools_want_is_the_first_ones() -> None:
    """No device stands behind two pools, and their order decides."""
    roce, infiniband = Selector(link_layer=LinkLayer.ETHERNET), Selector()
    first, second = Pool(selector=infiniband), Pool(selector=roce, earlier=(infiniband,))
    assert [pool.takes(_BOTH) for pool in (first, second)] == [True, False]
    assert [pool.takes(_ROCE) for pool in (first, second)] == [False, True]
    assert Pool(selector=roce).takes(_BOTH)
    assert not first.takes(_SOFTWARE)
