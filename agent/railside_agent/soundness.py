"""The health of HCAs over time: ill at once, well only after a stable while, and how often it changed.

Time is passed in. It must not decide what illness is, nor what an ill HCA means for those who hold it.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from railside_agent.health import illness, obstacle
from railside_proto.machine import LinkLayer, Machine, PciAddress
from railside_proto.reasons import Code, Reason, reason

MOST_COURSES: Final = 512
"""HCAs that are remembered after they went: a node that replugs for ever must not fill the memory."""


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """How one HCA fared."""

    illness: Reason | None = None
    """What is wrong with it now, whatever the recovery window says."""
    well_since: float | None = None
    """When its last illness ended; None while it is ill, or where it never was."""
    flaps: int = 0
    """How often it fell ill."""


Courses = dict[PciAddress, Course]


def follow(
    before: Mapping[PciAddress, Course],
    machine: Machine,
    now: float,
    link_layer: LinkLayer = LinkLayer.INFINIBAND,
) -> Courses:
    """The courses after a look at ``machine``, by its ports of ``link_layer``; an HCA that has gone is ill."""
    here = {hca.address: obstacle(machine) or illness(hca, link_layer) for hca in machine.hcas}
    left_out = {one.address: one.reason for one in machine.excluded if one.address is not None}
    gone = {address: left_out.get(address) or _gone(address) for address in before if address not in here}
    seen = {address: _next(before.get(address), ill, now) for address, ill in {**gone, **here}.items()}
    return dict(_bounded(seen, here))


def unsound(course: Course, now: float, recovery_seconds: float) -> Reason | None:
    """Why an HCA of this course must not come into new hands; None when it may."""
    if course.illness is not None:
        return course.illness
    if course.well_since is None or now - course.well_since >= recovery_seconds:
        return None
    return reason(Code.RECOVERING, seconds=f"{recovery_seconds:g}")


def next_recovery(courses: Iterable[Course], now: float, recovery_seconds: float) -> float | None:
    """When the next HCA will have been well for long enough; None where none is waiting."""
    waiting = (one.well_since + recovery_seconds for one in courses if one.well_since is not None)
    return min((moment for moment in waiting if moment > now), default=None)


def _gone(address: PciAddress) -> Reason:
    return reason(Code.HCA_GONE, address=address)


def _next(before: Course | None, ill: Reason | None, now: float) -> Course:
    if before is None:
        return Course(illness=ill, flaps=int(ill is not None))
    if ill is not None:
        return Course(illness=ill, flaps=before.flaps + (before.illness is None))
    well_since = now if before.illness is not None else before.well_since
    return Course(well_since=well_since, flaps=before.flaps)


def _bounded(courses: Courses, here: Mapping[PciAddress, object]) -> Iterable[tuple[PciAddress, Course]]:
    """Those that are there, and the others as far as there is room."""
    gone = [address for address in courses if address not in here]
    kept = set(gone[: max(0, MOST_COURSES - len(here))])
    return ((address, course) for address, course in courses.items() if address in here or address in kept)
