from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.unit.agent.situations import POOL, address, binding, entry, held, listed, situation
from tests.unit.builders import hca, machine, port

from railside_agent.mode import ModeDecision
from railside_agent.pods import Pod, Pods
from railside_agent.publication import Publication, Standing
from railside_agent.seats import Offer
from railside_agent.situation import Situation
from railside_agent.status import (
    ContainerStatus,
    HcaStatus,
    PoolStatus,
    SeatStatus,
    not_ready,
    nothing_found,
    nothing_offered,
    status,
)
from railside_agent.view import NOT_TRIED, PoolView, RegistrationState, View
from railside_proto.machine import Excluded, Machine, PathClass, PortState
from railside_proto.pool import Mode, Pair, Pool
from railside_proto.reasons import Code, Reason, reason

_REGISTERED = RegistrationState(registered=True, detail="registered", streams=1)
_SHARED = ModeDecision(mode=Mode.IB_SHARED, source="setting")
_NO_LABEL = reason(Code.NO_MODE_LABEL, label="x")
_NO_MODE = ModeDecision(mode=None, source="label", reason=_NO_LABEL)
_NOW = situation(
    hca(1),
    hca(2, 1, ports=(port(PortState.DOWN),)),
    entries=[entry("p", "n0-s0")],
    bindings=(binding("p", n0_s0=1),),
)


def _pool(now: Situation | None = None, **facts: object) -> PoolView:
    plain = PoolView(pool=POOL, mode=_SHARED, offer=listed(now) if now else Offer(), registration=_REGISTERED)
    return msgspec.structs.replace(plain, **{"wanted": True, **facts})


def _view(*pools: PoolView, seen: Machine | None = _NOW.machine, **facts: object) -> View:
    return msgspec.structs.replace(View(version="1", pools=pools, machine=seen), **facts)


def _first(view: View) -> PoolStatus:
    return status(view).pools[0]


_NO_LIST = "no list was made yet: the disk has not told what pods hold"
_DEAF = msgspec.structs.replace(_REGISTERED, streams=0)
_ROCE = Pool(resource="example.com/roce")


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        pytest.param(_view(_pool(), seen=None), ("the machine has not been looked at yet",), id="not-looked"),
        pytest.param(
            _view(_pool(), look_problem="sysfs did not answer within 10 s"),
            ("the machine could not be looked at: sysfs did not answer within 10 s",),
            id="a-look-that-failed",
        ),
        pytest.param(_view(_pool(wanted=False)), (_NO_LIST,), id="a-disk-that-hangs-at-the-start"),
        pytest.param(_view(_pool(_NOW, wanted=False, registration=NOT_TRIED)), (), id="B-DP-45-nothing-to-offer"),
        pytest.param(_view(_pool(_NOW, registration=NOT_TRIED)), (NOT_TRIED.detail,), id="not-registered"),
        pytest.param(
            _view(_pool(_NOW, registration=_DEAF)),
            ("the kubelet took the registration but does not listen to the list",),
            id="B-DP-25-nobody-listens",
        ),
        pytest.param(_view(_pool(_NOW)), (), id="ready"),
        pytest.param(
            _view(_pool(_NOW), publication=Publication(standing=Standing.REFUSED, problem="forbidden")),
            ("the node's record is not written: forbidden",),
            id="a-record-that-is-refused",
        ),
        pytest.param(
            _view(_pool(_NOW), publication=Publication(standing=Standing.AWAY, problem="away")),
            (),
            id="an-api-server-that-is-away",
        ),
        pytest.param(
            _view(_pool(_NOW), _pool(_NOW, pool=_ROCE, registration=NOT_TRIED)),
            (NOT_TRIED.detail,),
            id="one-pool-of-two",
        ),
        pytest.param(
            _view(_pool(_NOW), _pool(_NOW, pool=_ROCE, registration=NOT_TRIED, wanted=False)),
            (),
            id="one-pool-is-empty",
        ),
    ],
)
def test_not_ready(view: View, expected: tuple[str, ...]) -> None:
    """Ready means that the kubelet listens to each pool that is known to have something (B-DP-25, B-DP-45)."""
    assert expected == not_ready(view)


_WHY = reason(Code.ETHERNET_LINK, device="mlx5_bond_0")
_BOND_ALONE = machine(excluded=(Excluded(name="mlx5_bond_0", reason=_WHY),))


def test_a_machine_without_rdma_says_so() -> None:
    """Without RDMA devices the reason says which driver to load (B-DP-15)."""
    assert (reason(Code.NO_RDMA_DEVICES), None) == (nothing_found(machine()), nothing_found(machine(hca(1))))


def test_functions_without_a_driver_are_no_rdma_devices() -> None:
    """Where InfiniBand functions are all there is, the driver is what is missing (B-DP-15)."""
    why = reason(Code.NO_DRIVER, address="0000:16:00.0", parent="")
    told = nothing_found(machine(excluded=(Excluded(name="0000:16:00.0", reason=why),)))
    assert told == reason(Code.NO_RDMA_DEVICES)


def test_a_machine_whose_devices_are_all_left_out_says_why() -> None:
    """Every device's own reason stands in the one sentence (B-DP-5)."""
    told = nothing_found(_BOND_ALONE)
    assert told is not None
    assert f"none of this node's 1 RDMA devices can be offered: {_WHY.sentence}" == told.sentence


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        pytest.param(_view(_pool()), None, id="offered"),
        pytest.param(_view(_pool(), seen=None), None, id="not-looked"),
        pytest.param(_view(_pool(), seen=machine()), reason(Code.NO_RDMA_DEVICES), id="no-devices"),
        pytest.param(_view(_pool(mode=_NO_MODE)), _NO_LABEL, id="no-mode"),
        pytest.param(_view(_pool(mode=_NO_MODE), _pool(pool=_ROCE)), None, id="one-pool-of-two-has-a-mode"),
        pytest.param(
            _view(_pool(mode=_NO_MODE), seen=machine()), reason(Code.NO_RDMA_DEVICES), id="neither-device-nor-mode"
        ),
    ],
)
def test_why_nothing_new_is_offered(view: View, expected: Reason | None) -> None:
    """A node that offers nothing says whether it has no device or nobody chose a mode, and else nothing."""
    assert expected == nothing_offered(view)


def test_a_held_seat_is_shown_with_its_hca() -> None:
    """A seat whose container has started is shown with HCA, device and what the kubelet is told."""
    expected = SeatStatus(
        id="n0-s0",
        numa_nodes=(0,),
        held=True,
        foreign=False,
        listed_healthy=True,
        hca=address(1),
        name="mlx5_1",
        device="uverbs1",
        reason=None,
    )
    assert (expected,) == _first(_view(_pool(_NOW))).seats


def test_a_free_seat_has_no_hca() -> None:
    """A seat that nobody holds means no HCA, and has nothing to explain."""
    (seat,) = _first(_view(_pool(situation(hca(1))))).seats
    assert (seat.held, seat.listed_healthy, seat.hca, seat.name, seat.reason) == (False, True, None, None, None)


def test_a_seat_whose_hca_has_gone_says_so() -> None:
    """A held seat without its HCA has no names, is counted, and says why its container will wait (B-DP-41)."""
    gone = msgspec.structs.replace(_NOW, machine=machine())
    (seat,) = _first(_view(_pool(gone), seen=machine())).seats
    assert (address(1), None, None, True) == (seat.hca, seat.name, seat.device, seat.listed_healthy)
    assert seat.reason is not None
    assert seat.reason.code is Code.HCA_GONE


def test_another_plugins_seat_is_shown_as_such() -> None:
    """An id that another plugin dealt is told apart."""
    theirs = situation(hca(1), entries=[entry("q", ids=(held("mlx5_1", 0),))])
    (seat,) = _first(_view(_pool(theirs))).seats
    assert (seat.foreign, seat.held, seat.reason.code if seat.reason else None) == (True, True, Code.SEAT_FOREIGN)


def test_each_hca_is_shown_with_what_is_left_of_it() -> None:
    """HCAs come with zone, who has them, free shares and why they are not to be had."""
    first, second = _first(_view(_pool(_NOW))).hcas
    expected = HcaStatus(
        address=address(1),
        name="mlx5_1",
        zone="n0",
        pods=("p",),
        users=1,
        free=0,
        withheld=False,
        flaps=0,
        reason=None,
    )
    assert expected == first
    assert (
        second.zone,
        second.free,
        second.flaps,
        second.reason.code if second.reason else None,
    ) == ("n1", 0, 1, Code.NO_ACTIVE_PORT)


_TRAIN = Pod(uid="p", name="train", namespace="ml", ended=False, terminating=False)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param(Pods(pods=(_TRAIN,), by_uid={"p": _TRAIN}), "ml/train", id="known"),
        pytest.param(Pods(), "p", id="not-known"),
    ],
)
def test_containers_are_told_by_their_pods_names(pods: Pods, expected: str) -> None:
    """A container is shown with pod, seats, HCAs, their names of today, and the GPUs that they serve."""
    pair = Pair(gpu=address(9), hca=address(1), path=PathClass.PIX)
    bound = msgspec.structs.replace(binding("p", n0_s0=1), pairs=(pair,))
    now = msgspec.structs.replace(_NOW, bindings=(bound,))
    container = ContainerStatus(
        pod=expected, seats=("n0-s0",), hcas=(address(1),), names=("mlx5_1",), pairs=(pair,)
    )
    assert (container,) == _first(_view(_pool(now), pods=pods)).containers


def test_containers_of_ended_pods_are_not_told() -> None:
    """What is bound to a pod that holds nothing any more is history."""
    now = msgspec.structs.replace(_NOW, ended=frozenset({"p"}))
    assert _first(_view(_pool(now))).containers == ()


def test_two_pools_are_told_apart() -> None:
    """Each pool has its own resource, mode, HCAs and seats."""
    told = status(_view(_pool(_NOW), _pool(situation(hca(7)), pool=_ROCE, mode=_NO_MODE)))
    facts = [
        (one.pool.resource, one.mode.mode, [hca.name for hca in one.hcas], len(one.seats)) for one in told.pools
    ]
    assert facts == [
        (POOL.resource, Mode.IB_SHARED, ["mlx5_1", "mlx5_2"], 1),
        ("example.com/roce", None, ["mlx5_7"], 1),
    ]


def test_status_before_the_first_look() -> None:
    """Before anything was seen the answer is whole and says what is missing."""
    answer = status(_view(_pool(), seen=None, checkpoint_problem="torn", pods=Pods(problem="no API server")))
    assert answer.not_ready == ("the machine has not been looked at yet",)
    assert (
        answer.machine,
        answer.nothing_offered,
        answer.checkpoint_problem,
        answer.pods_problem,
    ) == (None, None, "torn", "no API server")


def _keys(told: object) -> Iterator[str]:
    if isinstance(told, dict):
        yield from told
        told = list(told.values())
    for value in told if isinstance(told, list) else ():
        yield from _keys(value)


def test_status_is_camel_case_json() -> None:
    """Programs read the status as JSON in camelCase, with pools, containers and reasons."""
    answer = status(_view(_pool(_NOW), sources={"uevents": True}))
    told: Any = msgspec.json.decode(msgspec.json.encode(answer))
    assert {"notReady", "nothingOffered", "pools", "checkpointProblem", "podsProblem"} <= set(told)
    (pool,) = told["pools"]
    assert (
        pool["containers"][0]["seats"],
        pool["hcas"][1]["reason"]["code"],
        pool["seats"][0]["listedHealthy"],
    ) == (["n0-s0"], "NoActivePort", True)
    assert (told["sources"], pool["hinted"]) == ({"uevents": True}, True)
    assert [key for key in _keys(told) if "_" in key] == []
