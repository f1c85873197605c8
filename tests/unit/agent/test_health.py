import pytest
from tests.unit.builders import hca, port

from railside_agent.health import illness
from railside_proto.machine import LinkLayer, Port, PortState
from railside_proto.reasons import Code


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        pytest.param((port(),), None, id="active"),
        pytest.param((port(PortState.DOWN), port(number=2)), None, id="B-DP-10-one-of-two-active"),
        pytest.param((port(PortState.DOWN),), Code.NO_ACTIVE_PORT, id="B-DP-37-down"),
        pytest.param((port(PortState.INIT),), Code.NO_SUBNET_MANAGER, id="init"),
        pytest.param((port(PortState.ARMED),), Code.NO_SUBNET_MANAGER, id="armed"),
        pytest.param(
            (port(PortState.DOWN), port(PortState.INIT, number=2)), Code.NO_SUBNET_MANAGER, id="one-waits-one-down"
        ),
        pytest.param(
            (port(PortState.DOWN), port(number=2, link_layer=LinkLayer.ETHERNET)),
            Code.NO_ACTIVE_PORT,
            id="active-on-ethernet-alone",
        ),
    ],
)
def test_illness(ports: tuple[Port, ...], expected: Code | None) -> None:
    """An HCA is sound while a port of its kind is active, and else says why (B-DP-10, B-DP-37)."""
    why = illness(hca(0, ports=ports))
    assert expected == (why.code if why else None)


@pytest.mark.parametrize(
    ("state", "expected"),
    [(PortState.ACTIVE, None), (PortState.INIT, Code.NO_ACTIVE_PORT)],
    ids=["active", "init"],
)
def test_illness_of_a_pool_of_ethernet_devices(state: PortState, expected: Code | None) -> None:
    """A RoCE device is judged by its Ethernet ports, which wait for no subnet manager."""
    why = illness(hca(0, ports=(port(state, link_layer=LinkLayer.ETHERNET),)), LinkLayer.ETHERNET)
    assert expected == (why.code if why else None)


def test_the_state_of_each_port_is_told() -> None:
    """The sentence names every InfiniBand port and its state."""
    why = illness(hca(0, ports=(port(PortState.DOWN), port(PortState.INIT, number=2))))
    assert why is not None
    assert "(port 1 is DOWN, port 2 is INIT)" in why.sentence


def test_ethernet_is_called_ethernet() -> None:
    """The reason of a RoCE device does not speak of InfiniBand."""
    why = illness(hca(0, ports=(port(PortState.DOWN, link_layer=LinkLayer.ETHERNET),)), LinkLayer.ETHERNET)
    assert why is not None
    assert why.sentence == "mlx5_0 has no active Ethernet port (port 1 is DOWN)"
