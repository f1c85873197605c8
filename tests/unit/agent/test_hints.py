import pytest
from tests.unit.agent.situations import held
from tests.unit.builders import hca

from railside_agent.hints import is_hinted, wants_hints
from railside_agent.holders import HeldId
from railside_agent.rules import AdvertiseTopology
from railside_proto.machine import Hca
from railside_proto.pool import Mode
from railside_proto.record import TopologyPolicy

_PLACED = (hca(1), hca(2, None))
_PLACELESS = (hca(1, None),)


@pytest.mark.parametrize(
    ("hcas", "in_hands", "before", "wanted", "busy", "expected"),
    [
        pytest.param(_PLACED, (), None, True, False, True, id="wanted"),
        pytest.param(_PLACED, (), None, False, False, False, id="not-wanted"),
        pytest.param(_PLACELESS, (), None, True, False, False, id="nowhere-to-point-to"),
        pytest.param((), (), True, True, False, False, id="no-hca-and-nothing-held"),
        pytest.param(_PLACED, (held("a", 0),), None, False, False, True, id="held-with-a-hint"),
        pytest.param(_PLACED, (held("a"),), None, True, False, False, id="held-bare"),
        pytest.param(_PLACED, (held("a"), held("b", 1)), None, False, False, True, id="held-both-ways"),
        pytest.param((), (held("a", 0),), False, False, False, True, id="held-with-a-hint-and-no-hca"),
        pytest.param(_PLACED, (), False, True, False, True, id="free-to-change"),
        pytest.param(_PLACED, (), False, True, True, False, id="bare-while-a-call-is-under-way"),
        pytest.param(_PLACED, (), True, False, True, True, id="hinted-while-a-call-is-under-way"),
        pytest.param(_PLACED, (), None, True, True, True, id="busy-before-the-first-list"),
        pytest.param(_PLACED, (held("a"),), True, True, True, False, id="held-beats-busy"),
    ],
)
def test_hints_are_as_what_is_held_was_dealt(
    hcas: tuple[Hca, ...],
    in_hands: tuple[HeldId, ...],
    before: bool | None,  # noqa: FBT001 -- a row
    wanted: bool,  # noqa: FBT001 -- a row
    busy: bool,  # noqa: FBT001 -- a row
    expected: bool,  # noqa: FBT001 -- a row
) -> None:
    """All seats have hints or none, and that changes only while nothing is held or being dealt (law 4)."""
    assert expected == is_hinted(hcas, in_hands, before=before, wanted=wanted, busy=busy)


@pytest.mark.parametrize(
    ("setting", "mode", "policy", "expected"),
    [
        pytest.param("auto", Mode.IB_SHARED, None, True, id="policy-unknown"),
        pytest.param("auto", Mode.IB_SHARED, TopologyPolicy.BEST_EFFORT, True, id="best-effort"),
        pytest.param("auto", Mode.IB_SHARED, TopologyPolicy.SINGLE_NUMA_NODE, True, id="single-numa-node"),
        pytest.param("auto", Mode.IB_SHARED, TopologyPolicy.RESTRICTED, True, id="restricted"),
        pytest.param("auto", Mode.IB_SHARED_MULTI, TopologyPolicy.RESTRICTED, False, id="restricted-and-shared"),
        pytest.param("auto", Mode.IB_SHARED_MULTI, TopologyPolicy.BEST_EFFORT, True, id="best-effort-and-shared"),
        pytest.param("auto", None, TopologyPolicy.RESTRICTED, True, id="restricted-without-a-mode"),
        pytest.param("auto", Mode.IB_SHARED, TopologyPolicy.NONE, False, id="none"),
        pytest.param("always", Mode.IB_SHARED, TopologyPolicy.NONE, True, id="always"),
        pytest.param("never", Mode.IB_SHARED, TopologyPolicy.BEST_EFFORT, False, id="never"),
    ],
)
def test_where_hints_help(
    setting: AdvertiseTopology,
    mode: Mode | None,
    policy: TopologyPolicy | None,
    expected: bool,  # noqa: FBT001 -- a row
) -> None:
    """By itself the agent gives hints where the kubelet reads them and no pod is shut out by them."""
    assert expected == wants_hints(setting, mode, policy)
