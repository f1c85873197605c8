"""Answers for the wires: the cluster's bridge, a node's cable to it, and the addresses on both.

It must run inside the cluster's own network namespace.
"""

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from harness import commands
from harness.namespaces import Namespaces

BRIDGE = "cluster0"
BRIDGE_MAC = "02:00:0a:63:00:01"
SERVICE_NETWORK = IPv4Network("10.96.0.0/16")
#: Where pods find the API server; it answers there itself, so no kube-proxy is needed.
API_SERVICE = IPv4Address("10.96.0.1")
NODE_NETWORK = IPv4Network("10.99.0.0/24")
CONTROL_PLANE = IPv4Address("10.99.0.1")
_PODS = IPv4Network("10.244.0.0/16")


def node_address(number: int) -> IPv4Address:
    """The address of node ``number`` (1 and up)."""
    return CONTROL_PLANE + 10 + number


def pod_network(number: int) -> IPv4Network:
    """The addresses of node ``number``'s pods."""
    return list(_PODS.subnets(new_prefix=24))[number]


def raise_bridge() -> None:
    """Bring up the cluster's side."""
    _ip("link set lo up")
    _ip(f"addr add {API_SERVICE}/32 dev lo")
    # An address of its own: a bridge takes that of a cable, and all nodes lose it when that cable goes.
    _ip(f"link add {BRIDGE} address {BRIDGE_MAC} type bridge")
    _ip(f"addr add {CONTROL_PLANE}/{NODE_NETWORK.prefixlen} dev {BRIDGE}")
    _ip(f"link set {BRIDGE} up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="ascii")


def connect(number: int, node: Namespaces) -> None:
    """Lay node ``number``'s cable; its pods are reached through the node."""
    address = node_address(number)
    _ip(f"link add wire{number} type veth peer name eth0 netns {node.first_pid}")
    _ip(f"link set wire{number} master {BRIDGE} up")
    for words in (
        "link set lo up",
        f"addr add {address}/{NODE_NETWORK.prefixlen} dev eth0",
        "link set eth0 up",
        f"route add default via {CONTROL_PLANE}",
    ):
        node.run("ip", *words.split())
    _ip(f"route add {pod_network(number)} via {address}")


def disconnect(number: int) -> None:
    """Forget node ``number``'s pods; its cable went with its namespace."""
    _ip(f"route del {pod_network(number)}")


def wires() -> list[str]:
    """The names of the nodes' cables that are plugged in."""
    return [line.split(":")[1].split("@")[0].strip() for line in _ip("-o link show type veth").splitlines()]


def _ip(words: str) -> str:
    return commands.run("ip", *words.split())
