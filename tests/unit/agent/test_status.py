import msgspec
import pytest
from tests.unit.builders import hca, machine, port

from railside_agent.seats import Offer, offer
from railside_agent.status import (
    NOT_TRIED,
    RegistrationState,
    SeatStatus,
    View,
    not_ready,
    nothing_offered,
    status,
)
from railside_proto.machine import Excluded, Machine, PortState
from railside_proto.pool import Container, Pool
from railside_proto.reasons import Code, reason

_SEATS = offer(machine(hca(1)), Pool())
_REGISTERED = RegistrationState(registered=True, detail="registered", streams=1)


def _view(seen: Machine | None, seats: Offer = (), registration: RegistrationState = NOT_TRIED) -> View:
    return View(version="1", pool=Pool(), machine=seen, offer=seats, registration=registration)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        pytest.param(_view(None), ("the machine has not been looked at yet",), id="not-looked"),
        pytest.param(_view(machine()), (), id="B-DP-45-nothing-to-offer"),
        pytest.param(_view(machine(hca(1))), ("the seats are not listed yet",), id="not-listed"),
        pytest.param(
            _view(machine(hca(1)), _SEATS), ("not registered: there is nothing to offer yet",), id="not-registered"
        ),
        pytest.param(
            _view(machine(hca(1)), _SEATS, msgspec.structs.replace(_REGISTERED, streams=0)),
            ("the kubelet took the registration but does not listen to the list",),
            id="B-DP-25-nobody-listens",
        ),
        pytest.param(_view(machine(hca(1)), _SEATS, _REGISTERED), (), id="ready"),
    ],
)
def test_not_ready(view: View, expected: tuple[str, ...]) -> None:
    """Ready means that the kubelet listens, or that there is nothing to offer (B-DP-25, B-DP-45)."""
    assert expected == not_ready(view)


def test_a_machine_with_hcas_has_nothing_to_explain() -> None:
    """Where an HCA is offered there is no reason for offering none."""
    assert nothing_offered(machine(hca(1))) is None


def test_a_machine_without_rdma_says_so() -> None:
    """Without RDMA devices the reason says which driver to load (B-DP-15)."""
    assert reason(Code.NO_RDMA_DEVICES) == nothing_offered(machine())


def test_functions_without_a_driver_are_no_rdma_devices() -> None:
    """Where InfiniBand functions are all there is, the driver is what is missing (B-DP-15)."""
    why = reason(Code.NO_DRIVER, address="0000:16:00.0", parent="")
    told = nothing_offered(machine(excluded=(Excluded(name="0000:16:00.0", reason=why),)))
    assert told == reason(Code.NO_RDMA_DEVICES)


def test_a_machine_whose_devices_are_all_left_out_says_why() -> None:
    """Every device's own reason stands in the one sentence (B-DP-5)."""
    why = reason(Code.ETHERNET_LINK, device="mlx5_bond_0")
    told = nothing_offered(machine(excluded=(Excluded(name="mlx5_bond_0", reason=why),)))
    assert told is not None
    assert f"none of this node's 1 RDMA devices can be offered: {why.sentence}" == told.sentence


def test_a_look_that_failed_is_not_ready() -> None:
    """While the machine cannot be looked at, readiness says so with the reason."""
    view = msgspec.structs.replace(
        _view(machine(hca(1)), _SEATS, _REGISTERED), look_problem="sysfs did not answer within 10 s"
    )
    assert not_ready(view) == ("the machine could not be looked at: sysfs did not answer within 10 s",)


def test_status_names_the_hca_of_each_seat() -> None:
    """A seat is shown with its HCA, its device and its health."""
    answer = status(_view(machine(hca(1)), _SEATS, _REGISTERED), ())
    expected = SeatStatus(
        id="n0-s0",
        numa_nodes=(0,),
        hca="0000:01:00.0",
        name="mlx5_1",
        device="uverbs1",
        held=False,
        healthy=True,
        reason=None,
    )
    assert (expected,) == answer.seats


def test_status_shows_a_seat_whose_hca_has_gone() -> None:
    """A seat without its HCA has no names, and says why it is not healthy (B-DP-41)."""
    (seat,) = status(_view(machine(), offer(machine(), Pool(), _SEATS)), ()).seats
    assert (seat.name, seat.device, seat.healthy) == (None, None, False)
    assert seat.reason is not None
    assert seat.reason.code is Code.HCA_GONE


def test_status_before_the_first_look() -> None:
    """Before anything was seen the answer is whole and says what is missing."""
    answer = status(_view(None), ())
    assert (
        answer.not_ready,
        answer.machine,
        answer.nothing_offered,
    ) == (("the machine has not been looked at yet",), None, None)


def test_status_is_camel_case_json() -> None:
    """Programs read the status as JSON in camelCase, with containers and reasons."""
    ill = machine(hca(1, ports=(port(PortState.DOWN),)))
    held = (Container(seats=("n0-s0",), hcas=("0000:01:00.0",)),)
    answer = status(_view(ill, offer(ill, Pool()), _REGISTERED), held)
    told = msgspec.json.decode(msgspec.json.encode(answer))
    assert {"notReady", "nothingOffered", "seats", "containers"} <= set(told)
    assert (told["seats"][0]["reason"]["code"], told["containers"][0]["seats"]) == ("NoActivePort", ["n0-s0"])
