import pytest
from tests.unit.agent.situations import address
from tests.unit.builders import hca, machine, port

from railside_agent.soundness import MOST_COURSES, Course, Courses, follow, next_recovery, unsound
from railside_proto.machine import Excluded, Hca, Machine, NetnsMode, PciAddress, PortState
from railside_proto.reasons import Code, reason

_WELL = hca(1)
_ILL = hca(1, ports=(port(PortState.DOWN),))
_GONE = machine()
_EXCLUSIVE = machine(_WELL, netns_mode=NetnsMode.EXCLUSIVE)


def _after(*looks: Hca | Machine) -> Course:
    """The course of HCA 1 after looks at 0 s, 1 s, and so on."""
    courses: Courses = {}
    for now, look in enumerate(looks):
        courses = follow(courses, look if isinstance(look, Machine) else machine(look), float(now))
    return courses[address(1)]


def _code(course: Course) -> Code | None:
    return course.illness.code if course.illness else None


@pytest.mark.parametrize(
    ("looks", "illness", "well_since", "flaps"),
    [
        pytest.param([_WELL], None, None, 0, id="well-since-ever"),
        pytest.param([_WELL, _WELL], None, None, 0, id="still-well"),
        pytest.param([_ILL], Code.NO_ACTIVE_PORT, None, 1, id="ill-from-the-start"),
        pytest.param([_WELL, _ILL], Code.NO_ACTIVE_PORT, None, 1, id="falls-ill"),
        pytest.param([_WELL, _ILL, _ILL], Code.NO_ACTIVE_PORT, None, 1, id="stays-ill"),
        pytest.param([_WELL, _ILL, _WELL], None, 2.0, 1, id="recovers"),
        pytest.param([_WELL, _ILL, _WELL, _WELL], None, 2.0, 1, id="well-for-a-while"),
        pytest.param([_WELL, _ILL, _WELL, _ILL, _WELL], None, 4.0, 2, id="flaps"),
        pytest.param([_WELL, _ILL, _WELL, _ILL], Code.NO_ACTIVE_PORT, None, 2, id="ill-again"),
        pytest.param([_WELL, _EXCLUSIVE], Code.NETNS_EXCLUSIVE, None, 1, id="B-DP-45-no-pod-could-use-it"),
        pytest.param([_WELL, _GONE], Code.HCA_GONE, None, 1, id="gone"),
        pytest.param([_WELL, _GONE, _WELL], None, 2.0, 1, id="gone-and-back"),
        pytest.param([_WELL, _GONE, _ILL], Code.NO_ACTIVE_PORT, None, 1, id="back-and-ill"),
    ],
)
def test_an_hcas_course(
    looks: list[Hca | Machine], illness: Code | None, well_since: float | None, flaps: int
) -> None:
    """An HCA is ill at once, is recovering from the first look that sees it well, and its falls are counted."""
    course = _after(*looks)
    assert (illness, well_since, flaps) == (_code(course), course.well_since, course.flaps)


def test_an_hca_that_is_left_out_has_that_reason() -> None:
    """A known HCA that cannot be offered any more says why, and not that it is gone (B-DP-41)."""
    why = reason(Code.UVERBS_MISSING, device="mlx5_1", detail="no node")
    out = machine(excluded=(Excluded(name="mlx5_1", address=address(1), reason=why),))
    assert why == _after(_WELL, out).illness


def test_a_device_that_was_never_offered_has_no_course() -> None:
    """What is left out from the start is not followed."""
    why = reason(Code.ETHERNET_LINK, device="mlx5_bond_0")
    out = machine(excluded=(Excluded(name="mlx5_bond_0", address=address(9), reason=why),))
    assert follow({}, out, 0.0) == {}


@pytest.mark.parametrize(
    ("course", "now", "expected"),
    [
        pytest.param(Course(), 0.0, None, id="never-ill"),
        pytest.param(_after(_ILL), 99.0, Code.NO_ACTIVE_PORT, id="ill"),
        pytest.param(Course(well_since=5.0, flaps=1), 5.0, Code.RECOVERING, id="just-well"),
        pytest.param(Course(well_since=5.0, flaps=1), 14.9, Code.RECOVERING, id="nearly"),
        pytest.param(Course(well_since=5.0, flaps=1), 15.0, None, id="recovered"),
    ],
)
def test_the_recovery_window(course: Course, now: float, expected: Code | None) -> None:
    """An HCA that was ill comes into new hands only after a stable window (law 8, B-DP-38)."""
    why = unsound(course, now, 10.0)
    assert expected == (why.code if why else None)


@pytest.mark.parametrize(
    ("courses", "expected"),
    [
        pytest.param([], None, id="none"),
        pytest.param([Course(), _after(_ILL)], None, id="none-on-its-way"),
        pytest.param([Course(well_since=8.0), Course(well_since=5.0)], 15.0, id="the-first-of-two"),
        pytest.param([Course(well_since=-1.0), Course(well_since=8.0)], 18.0, id="the-past-is-past"),
        pytest.param([Course(well_since=0.0)], None, id="just-now"),
    ],
)
def test_when_the_next_hca_has_recovered(courses: list[Course], expected: float | None) -> None:
    """Whoever waits is told the first moment still to come."""
    assert expected == next_recovery(courses, 10.0, 10.0)


def test_memory_is_bounded() -> None:
    """HCAs that come under ever new addresses do not fill the memory, and what is there is never lost."""
    courses: Courses = {}
    for number in range(MOST_COURSES + 50):
        here = hca(1, address=PciAddress(f"0000:00:{number:x}.0"))
        courses = follow(courses, machine(here, hca(2)), 0.0)
    assert len(courses) == MOST_COURSES
    assert {here.address, address(2)} <= courses.keys()
