import json
from typing import Any

import pytest

from railside_agent.configz import lack_of, read_configz, refusal
from railside_proto.reasons import Code
from railside_proto.record import KubeletFacts, Source, TopologyPolicy, TopologyScope


def _told(**fields: object) -> bytes:
    return json.dumps({"kubeletconfig": {"kind": "KubeletConfiguration", "maxPods": 110, **fields}}).encode()


def _facts(**facts: Any) -> KubeletFacts:  # noqa: ANN401 -- any field
    plain: dict[str, Any] = {
        "source": Source.CONFIGZ,
        "topology_policy": TopologyPolicy.NONE,
        "topology_scope": TopologyScope.CONTAINER,
    }
    return KubeletFacts(**plain | facts)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(_told(), _facts(), id="too-old-to-tell"),
        pytest.param(
            _told(topologyManagerPolicy="restricted", topologyManagerScope="pod"),
            _facts(topology_policy=TopologyPolicy.RESTRICTED, topology_scope=TopologyScope.POD),
            id="policy-and-scope",
        ),
        pytest.param(
            _told(topologyManagerPolicyOptions={"prefer-closest-numa-nodes": "true", "max-allowable": "12"}),
            _facts(topology_options=("max-allowable=12", "prefer-closest-numa-nodes=true")),
            id="options-are-sorted",
        ),
        pytest.param(
            _told(
                cpuManagerPolicy="static",
                cpuManagerPolicyOptions={"full-pcpus-only": "true"},
                memoryManagerPolicy="Static",
                topologyManagerPolicyOptions=None,
            ),
            _facts(cpu_policy="static", cpu_options=("full-pcpus-only=true",), memory_policy="Static"),
            id="cpus-and-memory",
        ),
        pytest.param(
            _told(topologyManagerPolicy="strictest", topologyManagerScope="node"),
            _facts(
                topology_policy=None,
                topology_scope=None,
                detail="its topologyManagerPolicy 'strictest' is not known here;"
                " its topologyManagerScope 'node' is not known here",
            ),
            id="of-later-kubelets",
        ),
    ],
)
def test_what_the_kubelet_tells(content: bytes, expected: KubeletFacts) -> None:
    """Policies, scope and options are read as the kubelet shows them, its own defaults where it shows none."""
    assert expected == read_configz(content)


@pytest.mark.parametrize("content", [b"", b"<html>", b"{}", b"[]", _told(topologyManagerPolicy=5)])
def test_nonsense_tells_nothing(content: bytes) -> None:
    """What is no configuration leaves everything unknown, and says so."""
    facts = read_configz(content)
    assert (facts.source, facts.topology_policy) == (Source.UNKNOWN, None)
    assert facts.detail.startswith("the kubelet's configuration makes no sense")


@pytest.mark.parametrize(
    ("status", "word"),
    [(401, "nodes/configz"), (403, "nodes/configz"), (404, "enableDebuggingHandlers"), (500, "answered 500")],
)
def test_a_refusal_says_what_is_missing(status: int, word: str) -> None:
    """A kubelet that does not tell is told of with its status, and with what to look at."""
    assert str(status) in refusal(status)
    assert word in refusal(status)


def test_what_nobody_was_asked_is_no_lack() -> None:
    """A kubelet that was not asked yet lacks nothing; one that did not tell all does."""
    assert lack_of(KubeletFacts()) == ()
    assert lack_of(_facts()) == ()
    (lack,) = lack_of(KubeletFacts(detail="it answered 500"))
    assert (lack.code, "it answered 500" in lack.sentence) == (Code.KUBELET_CONFIG_NOT_TOLD, True)
