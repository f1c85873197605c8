import pytest
from tests.unit.builders import hca, machine, port

from railside_agent.binding import Bound, Refused, bind
from railside_agent.seats import offer
from railside_proto.machine import Machine, PortState
from railside_proto.pool import Pool
from railside_proto.reasons import Code

_OFFER = offer(machine(hca(1), hca(2), hca(3, 1)), Pool())
_DOWN = (port(PortState.DOWN),)


def test_seats_mean_the_hcas_as_they_are_called_now() -> None:
    """Names and numbers are those of this start, in the order of the seats."""
    renamed = hca(1, name="mlx5_9")
    now = machine(renamed, hca(2), hca(3, 1))
    expected = Bound(seats=("n1-s0", "n0-s0"), hcas=(hca(3, 1), renamed))
    assert expected == bind(("n1-s0", "n0-s0"), _OFFER, now)


@pytest.mark.parametrize(
    ("now", "seats", "code", "sentence"),
    [
        pytest.param(machine(hca(1)), ("n5-s0",), Code.SEAT_UNKNOWN, "seat n5-s0 is not one", id="unknown-seat"),
        pytest.param(
            machine(hca(2)), ("n0-s0",), Code.HCA_NOT_SOUND, "HCA at 0000:01:00.0 is not there", id="B-DP-41-gone"
        ),
        pytest.param(
            machine(hca(1, ports=_DOWN)), ("n0-s0",), Code.HCA_NOT_SOUND, "port 1 is DOWN", id="B-DP-37-port-down"
        ),
        pytest.param(
            machine(hca(1), hca(2, ports=_DOWN)),
            ("n0-s0", "n0-s1"),
            Code.HCA_NOT_SOUND,
            "the HCA of seat n0-s1 (0000:02:00.0) is not sound: mlx5_2 has no active",
            id="one-of-two-down",
        ),
    ],
)
def test_a_start_is_refused_unless_all_are_sound(
    now: Machine, seats: tuple[str, ...], code: Code, sentence: str
) -> None:
    """A container starts with all of its HCAs sound or waits with the reason of the first that is not."""
    outcome = bind(seats, _OFFER, now)
    assert isinstance(outcome, Refused)
    assert outcome.reason.code is code
    assert sentence in outcome.reason.sentence
