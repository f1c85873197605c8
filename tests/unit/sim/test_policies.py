"""The merge of several resources' hints under each policy, as a pure function."""

import pytest

from railside_sim.hints import Hint
from railside_sim.policies import Opinion, Policy, merge

NARROW = "0* 1* 01"
WIDE = "01*"
ONE = "1* 01"


def opinion(text: str | None) -> Opinion:
    """``0* 01``: masks, preferred ones with a star; None has no opinion and an empty text no possibility."""
    if text is None:
        return None
    return [Hint(mask=frozenset(map(int, one.rstrip("*"))), preferred=one.endswith("*")) for one in text.split()]


@pytest.mark.parametrize(
    ("policy", "resources", "admitted", "affinity"),
    [
        pytest.param("none", [""], True, None, id="none never looks"),
        pytest.param("best-effort", [], True, {0, 1}, id="nothing asked, nothing narrowed"),
        pytest.param("best-effort", [None], True, {0, 1}, id="no opinion"),
        pytest.param("best-effort", [NARROW, NARROW], True, {0}, id="the lowest"),
        pytest.param("best-effort", [NARROW, ONE], True, {1}, id="the one in common"),
        pytest.param("best-effort", [NARROW, WIDE], True, {0, 1}, id="best-effort admits what does not match"),
        pytest.param("best-effort", [""], True, {0, 1}, id="and what no mask can serve"),
        pytest.param("restricted", [NARROW, NARROW], True, {0}, id="restricted: the lowest"),
        pytest.param("restricted", [WIDE, WIDE], True, {0, 1}, id="restricted: two nodes, if all need two"),
        pytest.param("restricted", [NARROW, WIDE], False, {0, 1}, id="restricted: different widths never match"),
        pytest.param("restricted", ["01"], False, {0, 1}, id="restricted: wider than it had to be"),
        pytest.param("restricted", ["0* 01", ONE], False, {0}, id="restricted: no node in common"),
        pytest.param("restricted", [NARROW, None], True, {0}, id="restricted: no opinion is no obstacle"),
        pytest.param("restricted", [NARROW, ""], False, {0}, id="restricted: no mask at all is one"),
        pytest.param("single-numa-node", [NARROW, ONE], True, {1}, id="single: the one in common"),
        pytest.param("single-numa-node", [NARROW, NARROW], True, {0}, id="single: the lowest"),
        pytest.param("single-numa-node", [WIDE], False, None, id="single: two nodes are too many"),
        pytest.param("single-numa-node", ["", NARROW], False, None, id="single: no mask at all"),
        pytest.param("single-numa-node", [None], True, None, id="single: no opinion is anywhere"),
    ],
)
def test_merged(policy: Policy, resources: list[str | None], admitted: bool, affinity: set[int] | None) -> None:  # noqa: FBT001
    """Each policy admits what its rule allows, with the nodes to take devices from."""
    verdict = merge(policy, map(opinion, resources), (0, 1))
    assert (verdict.admitted, verdict.affinity) == (admitted, affinity)


@pytest.mark.parametrize(
    ("resources", "affinity"),
    [
        (["01 012", "0 01 02 012"], {0, 1}),
        (["0 1 2", "012"], {0}),
        (["0", "1 12"], {0, 1, 2}),
        (["12 012", "0 1 01"], {0, 1}),
        (["12", "0 1"], {1}),
    ],
)
def test_the_best_of_what_is_not_preferred(resources: list[str], affinity: set[int]) -> None:
    """Without a preferred match the mask comes as near as it can to what the neediest resource needs at least."""
    assert set(merge("best-effort", map(opinion, resources), (0, 1, 2)).affinity or ()) == affinity
