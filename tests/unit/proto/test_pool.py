import pytest
from tests.unit.builders import hca, port

from railside_proto.machine import LinkLayer, Port
from railside_proto.names import RESOURCE
from railside_proto.pool import Mode, Pool, Selector, selects

_BOTH = (port(), port(number=2, link_layer=LinkLayer.ETHERNET))


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
    ("layer", "ports", "expected"),
    [
        pytest.param(LinkLayer.INFINIBAND, (port(),), True, id="infiniband"),
        pytest.param(LinkLayer.ETHERNET, (port(),), False, id="not-ethernet"),
        pytest.param(LinkLayer.INFINIBAND, _BOTH, True, id="one-port-of-two"),
        pytest.param(LinkLayer.INFINIBAND, _BOTH[1:], False, id="not-infiniband"),
    ],
)
def test_which_devices_stand_behind_a_pool(layer: LinkLayer, ports: tuple[Port, ...], *, expected: bool) -> None:
    """One port of the pool's link layer is enough."""
    assert expected == selects(Selector(link_layer=layer), hca(1, ports=ports))


@pytest.mark.parametrize(
    ("mode", "text"), [(Mode.IB_SHARED, "ib-shared"), (Mode.IB_SHARED_MULTI, "ib-shared-multi")]
)
def test_modes_are_spelt_as_on_the_node(mode: Mode, text: str) -> None:
    """A mode is spelt as the platform's document spells the node label's value."""
    assert text == str(mode)
