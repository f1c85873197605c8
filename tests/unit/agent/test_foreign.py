import pytest
from tests.unit.agent.situations import address, answer, entry, held
from tests.unit.builders import hca

from railside_agent.foreign import Foreign, foreign, is_foreign
from railside_agent.holders import Checkpoint, Entry
from railside_proto.names import RESOURCE

_OURS = answer("/run/railside/alloc/infiniband-rdma.0123/ib")
_NAMED = answer("/dev/infiniband/uverbs1", "/dev/infiniband/rdma_cm")


def _their(*names: str, node: int | None = 0, said: bytes = b"", container: str = "main", pod: str = "p") -> Entry:
    nodes = () if node is None else (node,)
    return entry(pod, container=container, ids=tuple(held(name, *nodes) for name in names), answer=said)


def _foreign(*entries: Entry) -> Foreign:
    return foreign(Checkpoint(entries=entries), RESOURCE, (hca(1), hca(2, 1)))


@pytest.mark.parametrize(
    ("entries", "hcas", "unknown"),
    [
        pytest.param([_their("a", said=_NAMED)], {1}, {}, id="uverbs-and-rdma_cm"),
        pytest.param(
            [_their("a", said=answer("/dev/infiniband/umad1", "/dev/infiniband/uverbs1"))], {1}, {}, id="umad"
        ),
        pytest.param([_their("a", said=answer(mounts=["/dev/infiniband/uverbs1"]))], {1}, {}, id="mounted"),
        pytest.param([_their("a")], set(), {"n0": 1}, id="no-answer"),
        pytest.param([_their("a", said=b"\xff\xff\xff")], set(), {"n0": 1}, id="garbage"),
        pytest.param([_their("a", said=answer("/dev/infiniband/rdma_cm"))], set(), {"n0": 1}, id="rdma_cm-only"),
        pytest.param([_their("a", said=answer("/dev/infiniband"))], set(), {"n0": 1}, id="whole-folder"),
        pytest.param([_their("a", said=answer("/dev/infiniband/uverbs9"))], set(), {}, id="node-that-is-gone"),
        pytest.param(
            [_their("a", "b", said=_NAMED, node=1)], {1}, {"n1": 1}, id="two-ids-and-one-node-of-another-zone"
        ),
        pytest.param([_their("a", node=None)], set(), {"any": 1}, id="bare"),
        pytest.param([entry("p", ids=(held("a", 0, 1),))], set(), {"any": 1}, id="two-nodes"),
        pytest.param(
            [_their("a"), _their("b"), _their("c", node=1)], set(), {"n0": 2, "n1": 1}, id="several-by-zone"
        ),
        pytest.param([_their("a"), _their("a", container="init")], set(), {"n0": 1}, id="init-and-main-share"),
        pytest.param([_their("n0-s0", "a")], set(), {"n0": 2}, id="one-name-like-ours"),
    ],
)
def test_what_another_plugins_pods_have(entries: list[Entry], hcas: set[int], unknown: dict[str, int]) -> None:
    """The HCAs that the kept answer names are theirs; where it names none, as many are unknown as ids (law 2)."""
    found = _foreign(*entries)
    assert (set(map(address, hcas)), unknown) == (set(found.hcas), found.unknown)


def test_their_ids_are_told_with_the_recorded_nodes() -> None:
    """Each of their ids is told once, sorted, as the kubelet recorded it."""
    found = _foreign(_their("b", node=1), _their("a", node=None), _their("b", node=1, container="init"))
    assert (held("a"), held("b", 1)) == found.ids


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        pytest.param(_their("a"), True, id="their-id"),
        pytest.param(_their("a", said=_NAMED), True, id="their-id-and-answer"),
        pytest.param(_their("n0-s0"), False, id="our-id"),
        pytest.param(_their("a", said=_OURS), False, id="their-id-dealt-again-by-us"),
        pytest.param(
            _their("a", said=answer(mounts=["/host/run/railside/alloc/x/info"])), False, id="bound-at-allocate"
        ),
    ],
)
def test_whose_an_entry_is(one: Entry, expected: object) -> None:
    """An entry is ours by the names of its ids, or by an answer that leads to our folder."""
    assert expected == is_foreign(one)


def test_our_own_and_other_resources_are_not_foreign() -> None:
    """Seats of ours and ids of other resources withhold nothing."""
    ours = entry("p", "n0-s0", answer=_OURS)
    other = _their("GPU-1")
    assert Foreign() == _foreign(ours, entry("q", ids=other.ids, resource="nvidia.com/gpu"))
