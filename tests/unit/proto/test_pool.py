import pytest
from tests.unit.builders import hca, port

from railside_proto.machine import LinkLayer, PciAddress, RdmaDevice
from railside_proto.names import RESOURCE
from railside_proto.pool import Functions, Mode, Pool, Selector, pool_of, selects


def test_a_pool_is_called_by_the_last_word_of_its_resource() -> None:
    """The name of a pool is fit for file names."""
    assert Pool(resource="example.org/rdma").name == "rdma"


def test_the_default_pool_is_the_platforms() -> None:
    """Without settings the platform's resource is offered, one container an HCA."""
    assert Pool(resource=RESOURCE, mode=Mode.IB_SHARED, share=1) == Pool()


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
    infiniband = Pool(resource="example.org/ib")
    roce = Pool(resource="example.org/roce", selector=Selector(link_layer=LinkLayer.ETHERNET))
    found = [
        pool_of(device, pools) for device in (_BOTH, _ROCE) for pools in ([infiniband, roce], [roce, infiniband])
    ]
    assert found == [infiniband, roce, roce, roce]
    assert pool_of(_SOFTWARE, [infiniband, roce]) is None
