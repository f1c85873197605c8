import pytest
from tests.unit.agent.situations import POOL, RULES, beside, binding, entry, gpus_of, held, placed, situation

from railside_agent.container_start import ContainerStart, container_start, held_gpus
from railside_agent.holders import Entry
from railside_agent.situation import Situation
from railside_proto.pool import Binding

_GPUS = (beside(1), beside(2))


def _now(*entries: Entry, **facts: object) -> Situation:
    return situation(placed(1), placed(2), gpus=_GPUS, entries=entries, **facts)


def _start(*entries: Entry, **facts: object) -> ContainerStart:
    return container_start(("n0-s0", "n0-s1"), _now(*entries, **facts), POOL, RULES)


_SEATS = ("n0-s1", "n0-s0")


@pytest.mark.parametrize(
    ("entries", "pod", "containers"),
    [
        pytest.param([entry("p", *_SEATS)], "p", ("main",), id="one"),
        pytest.param([], None, (), id="not-in-the-checkpoint"),
        pytest.param(
            [entry("p", *_SEATS), entry("p", *_SEATS, container="init")], "p", ("init", "main"), id="init-and-main"
        ),
        pytest.param([entry("p", *_SEATS), entry("q", *_SEATS)], None, (), id="two-pods"),
        pytest.param([entry("p", "n0-s0")], None, (), id="fewer-seats"),
        pytest.param([entry("p", *_SEATS, "n0-s2")], None, (), id="more-seats"),
        pytest.param([entry("p", *_SEATS, resource="example.com/x")], None, (), id="another-resource"),
    ],
)
def test_whose_container_it_is(entries: list[Entry], pod: str | None, containers: tuple[str, ...]) -> None:
    """The pod is the one whose container has just these seats, if there is one alone."""
    found = _start(*entries)
    assert (pod, containers) == (found.pod, found.containers)


def test_pods_that_are_over_are_nobody() -> None:
    """An ended pod that the checkpoint still names does not count beside the one that starts."""
    found = _start(entry("old", *_SEATS), entry("new", *_SEATS), ended=frozenset({"old"}))
    assert (found.pod, found.holders) == ("new", ("new",))


@pytest.mark.parametrize(
    ("before", "ended"),
    [
        pytest.param(binding("p", n0_s0=1, n0_s1=2), False, id="just-these-seats"),
        pytest.param(binding("p", n0_s1=2, n0_s0=1), False, id="in-another-order"),
        pytest.param(binding("p", n0_s0=1), True, id="fewer"),
        pytest.param(binding("p", n0_s0=1, n0_s1=2, n0_s2=3), True, id="more"),
        pytest.param(binding("p", n0_s2=3), False, id="others"),
        pytest.param(binding("q", n0_s0=1), False, id="another-pod"),
        pytest.param(binding(None, n0_s0=1), False, id="nobody-knows-whose"),
    ],
)
def test_who_has_handed_on_seats(before: Binding, *, ended: bool) -> None:
    """Containers of one pod that share some seats, and not all, never run at the same time."""
    assert ended == _start(entry("p", *_SEATS)).follows(before)


def test_in_doubt_nobody_has_handed_on_anything() -> None:
    """Where nobody knows whose container starts, everything that is bound counts."""
    assert not _start(doubtful=True).follows(binding(None, n0_s0=1))


@pytest.mark.parametrize(
    ("entries", "holders"),
    [
        pytest.param([entry("p", *_SEATS)], ("p",), id="one"),
        pytest.param([entry("q", "n0-s0", "n0-s5"), entry("p", *_SEATS)], ("p", "q"), id="one-seat-of-another"),
        pytest.param([entry("q", "n0-s5"), entry("p", *_SEATS)], ("p",), id="other-seats"),
    ],
)
def test_all_who_hold_one_of_the_seats(entries: list[Entry], holders: tuple[str, ...]) -> None:
    """Everybody who has one of the seats is known: more than one means that the kubelet dealt it twice (law 5)."""
    assert holders == _start(*entries).holders


@pytest.mark.parametrize(
    ("entries", "gpus", "unplaced"),
    [
        pytest.param([gpus_of("p", "GPU-2")], ["GPU-2"], (), id="one"),
        pytest.param([gpus_of("p", "GPU-2", "GPU-1")], ["GPU-1", "GPU-2"], (), id="by-address"),
        pytest.param([gpus_of("p", "GPU-1::3", "GPU-1::4")], ["GPU-1"], (), id="time-slices-of-one"),
        pytest.param(
            [gpus_of("p", "MIG-7", resource="nvidia.com/mig-1g.5gb")], [], ("MIG-7",), id="mig-is-unplaced"
        ),
        pytest.param([gpus_of("q", "GPU-1")], [], (), id="another-pods"),
        pytest.param([gpus_of("p", "GPU-1", container="sidecar")], [], (), id="another-container-s"),
        pytest.param([gpus_of("p", "GPU-1", resource="example.com/fpga")], [], (), id="not-a-gpu-resource"),
        pytest.param([], [], (), id="none"),
    ],
)
def test_the_gpus_of_the_container(entries: list[Entry], gpus: list[str], unplaced: tuple[str, ...]) -> None:
    """The GPUs that the checkpoint gives to the same pod and container, and ids that name none."""
    found = _start(entry("p", *_SEATS), *entries)
    assert (gpus, unplaced) == ([gpu.uuid for gpu in found.gpus], found.unplaced_gpus)


def test_init_and_main_containers_have_the_gpus_of_both() -> None:
    """Two containers of one pod with the same seats cannot be told apart: the GPUs of both count."""
    found = _start(
        entry("p", *_SEATS),
        entry("p", *_SEATS, container="init"),
        gpus_of("p", "GPU-2", container="init"),
        gpus_of("p", "GPU-1"),
    )
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-1", "GPU-2"]


def test_two_pods_have_no_gpus() -> None:
    """Where the pod cannot be told, nor can its GPUs."""
    found = _start(entry("p", *_SEATS), entry("q", *_SEATS), gpus_of("p", "GPU-1"))
    assert (found.gpus, found.holders) == ((), ("p", "q"))


def test_gpus_in_anybodys_hands() -> None:
    """GPUs of every living pod are held, whether it has an HCA or not."""
    now = _now(
        gpus_of("p", "GPU-1"),
        gpus_of("over", "GPU-2"),
        gpus_of("q", "MIG-7", resource="nvidia.com/mig-1g.5gb"),
        entry("q", ids=(held("GPU-2"),), resource="example.com/x"),
        ended=frozenset({"over"}),
    )
    assert {beside(1).address} == held_gpus(now, RULES)
