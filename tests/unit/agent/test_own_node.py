import msgspec
import pytest

from railside_agent.mode import NotSeen
from railside_agent.own_node import Node, NodeFacts, node_facts
from railside_proto.names import INSTANCE_TYPE_LABEL, KUBELET_PORT, MODE_LABEL


def _node(name: str = "n1", uid: str = "u1", **labels: str) -> Node:
    return msgspec.convert({"metadata": {"name": name, "uid": uid, "labels": labels}}, Node)


def _with(**status: object) -> NodeFacts:
    """The facts of a node with that status."""
    node = msgspec.convert({"metadata": {"name": "n1", "uid": "u1"}, "status": status}, Node)
    return node_facts([node], "n1", None, before=NodeFacts())


_LABELLED = _node(**{MODE_LABEL: "ib-shared", INSTANCE_TYPE_LABEL: "ecs.hpcpni3.45xlarge", "other": "x"})
_KNOWN = NodeFacts(seen=True, uid="u1", mode_label="ib-shared", instance_type="ecs.hpcpni3.45xlarge", problem=None)


def test_a_node_is_read() -> None:
    """UID, mode label and machine type come from the Node, and nothing is wrong."""
    assert node_facts([_LABELLED], "n1", None, before=NodeFacts()) == _KNOWN


def test_a_node_without_labels_is_seen() -> None:
    """A node that has no label at all is seen, and has no mode."""
    bare = msgspec.convert({"metadata": {"name": "n1", "uid": "u1"}}, Node)
    facts = node_facts([bare], "n1", None, before=NodeFacts())
    assert (facts.seen, facts.label) == (True, None)


def test_another_node_is_not_ours() -> None:
    """A server that does not honour the selector does not give us another node's label."""
    facts = node_facts([_node("n2", "u2", **{MODE_LABEL: "ib-shared"})], "n1", None, before=NodeFacts())
    assert facts.label == NotSeen(detail="the API server knows no node n1")


def test_a_problem_leaves_what_was_seen() -> None:
    """While the API server is away the label stays as it was, with the problem beside it."""
    facts = node_facts([_LABELLED], "n1", "nobody there", before=_KNOWN)
    assert (facts.label, facts.problem) == ("ib-shared", "nobody there")


def test_a_node_that_is_deleted_keeps_its_label() -> None:
    """A Node object that is gone is being made anew by its kubelet: the last label holds meanwhile."""
    facts = node_facts([], "n1", None, before=_KNOWN)
    assert (facts.label, facts.problem) == ("ib-shared", "the API server knows no node n1")


def test_before_the_first_answer_nothing_is_seen() -> None:
    """At the start the label is not known, which is not the same as a node without one."""
    assert NodeFacts().label == NotSeen(detail="the API server has not answered yet")


_ADDRESSES = [
    {"type": "Hostname", "address": "n1"},
    {"type": "InternalIP", "address": "10.0.0.7"},
    {"type": "InternalIP", "address": "fd00::7"},
]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({}, ("", KUBELET_PORT), id="nothing-told"),
        pytest.param({"addresses": None, "daemonEndpoints": None}, ("", KUBELET_PORT), id="nulls"),
        pytest.param({"addresses": _ADDRESSES[:1]}, ("", KUBELET_PORT), id="a-name-is-no-address"),
        pytest.param({"addresses": _ADDRESSES}, ("10.0.0.7", KUBELET_PORT), id="the-first-internal-one"),
        pytest.param(
            {"addresses": _ADDRESSES, "daemonEndpoints": {"kubeletEndpoint": {"Port": 10350}}},
            ("10.0.0.7", 10350),
            id="another-port",
        ),
        pytest.param({"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}}, ("", KUBELET_PORT), id="no-port"),
        pytest.param({"daemonEndpoints": {}}, ("", KUBELET_PORT), id="no-endpoint"),
    ],
)
def test_where_the_kubelet_is(status: dict[str, object], expected: tuple[str, int]) -> None:
    """The Node tells its kubelet's address and port; a port that it does not tell is the usual one."""
    facts = _with(**status)
    assert expected == (facts.address, facts.kubelet_port)


def test_the_capacity_of_extended_resources() -> None:
    """Of the capacity the whole numbers of resources with a domain are read, and nothing else."""
    capacity = {"cpu": "8", "nvidia.com/gpu": "8", "example.com/fpga": 2, "example.com/odd": "1k", "pods": "110"}
    assert _with(capacity=capacity).capacity == {"example.com/fpga": 2, "nvidia.com/gpu": 8}
    assert _with(capacity=None).capacity == {}
