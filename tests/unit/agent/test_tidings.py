import msgspec
import pytest
from tests.unit.agent.situations import (
    POOL,
    RULES,
    address,
    beside,
    binding,
    entry,
    gpus_of,
    listed,
    placed,
    situation,
)
from tests.unit.builders import hca, machine, port

from railside_agent.mode import ModeDecision
from railside_agent.pods import Pod, PodContainer, Pods
from railside_agent.seats import Books, Offer, offer
from railside_agent.situation import Situation
from railside_agent.start_decision import StartDecision, decide_start
from railside_agent.tidings import Tiding, of_deal, of_health, of_lacks, of_machine, of_mode, of_restart, of_start
from railside_proto.machine import Excluded, Machine, PortState
from railside_proto.pool import Binding, Mode
from railside_proto.reasons import Code, reason

_DOWN = (port(PortState.DOWN),)
_SHARED_GPU = "vke.example.com/mgpu-core"


def _told(tidings: object) -> list[tuple[str, Code | None, str | None, bool]]:
    """What, why, about whom, and whether it is an Event."""
    found: list[Tiding] = list(tidings)  # type: ignore[call-overload]
    return [(one.what, one.reason.code if one.reason else None, one.pod, one.event) for one in found]


def _pod(uid: str, *resources: str, ended: bool = False) -> Pod:
    containers = (PodContainer(name="main", resources=resources),)
    return Pod(uid=uid, name=uid, namespace="ml", ended=ended, terminating=False, containers=containers)


def _pods(*pods: Pod) -> Pods:
    return Pods(pods=pods, by_uid={pod.uid: pod for pod in pods})


def _decide(now: Situation) -> StartDecision:
    return decide_start(("n0-s0",), now, Books(), POOL, RULES, enforced={})


_HERE = situation(placed(1), placed(3, 1), gpus=(beside(1), beside(3, 1)), entries=[entry("p", "n0-s0")])
_FAR = msgspec.structs.replace(
    _HERE, checkpoint=situation(entries=[entry("p", "n0-s0"), gpus_of("p", "GPU-3")]).checkpoint
)


@pytest.mark.parametrize(
    ("now", "resources", "expected"),
    [
        pytest.param(_HERE, (), [("container bound", None, "p", False)], id="bound"),
        pytest.param(
            _FAR,
            (),
            [
                ("container bound", None, "p", False),
                ("an HCA is farther off than needed", Code.FARTHER_THAN_NEEDED, "p", True),
            ],
            id="farther-than-needed",
        ),
        pytest.param(
            msgspec.structs.replace(_HERE, machine=machine()),
            (_SHARED_GPU,),
            [("a container must wait", Code.NO_FREE_HCA, "p", True)],
            id="waits",
        ),
        pytest.param(
            _HERE,
            (_SHARED_GPU,),
            [
                ("container bound", None, "p", False),
                ("a pod uses what does not go together", Code.RESOURCES_CONFLICT, "p", True),
            ],
            id="resources-that-do-not-go-together",
        ),
        pytest.param(_HERE, ("cpu",), [("container bound", None, "p", False)], id="other-resources"),
    ],
)
def test_what_a_start_came_to(
    now: Situation, resources: tuple[str, ...], expected: list[tuple[str, Code | None, str | None, bool]]
) -> None:
    """A start tells what was bound, or why it waits, and what could be better, on the pod."""
    tidings = of_start(_decide(now), _pods(_pod("p", *resources)), (_SHARED_GPU,))
    assert expected == _told(tidings)


def test_a_start_names_hcas_and_paths() -> None:
    """Whoever reads the log finds seats, HCAs and each GPU's path."""
    (bound, _) = of_start(_decide(_FAR), Pods(), ())
    assert {
        "seats": ("n0-s0",),
        "hcas": ["mlx5_1"],
        "paths": [f"{beside(3).address} SYS {address(1)}"],
    } == bound.facts


@pytest.mark.parametrize(
    ("locality", "told"),
    [
        *((word, False) for word in (None, "required-pcie", "required-numa", "preferred", "none")),
        *((word, True) for word in ("", "required-pci", "Required-PCIe")),
    ],
)
def test_a_wish_that_is_no_word_is_told(locality: str | None, *, told: bool) -> None:
    """A pod whose annotation is misspelt runs as if it had none, and learns what the words are."""
    pods = _pods(msgspec.structs.replace(_pod("p"), locality=locality))
    (_, *more) = of_start(_decide(_HERE), pods, ())
    assert _told(more) == [("a pod's wish is not known", Code.LOCALITY_UNKNOWN, "p", True)] * told


def test_a_pod_that_is_not_known_has_no_conflicts() -> None:
    """Without the pod's object nothing is concluded about its resources."""
    assert _told(of_start(_decide(_HERE), Pods(), (_SHARED_GPU,))) == [("container bound", None, "p", False)]


def test_a_container_that_runs_on_what_has_changed_is_named() -> None:
    """The pod whose HCA is called otherwise by now must be restarted, and is told so once for each HCA."""
    told = of_restart(binding("p", n0_s0=1, n0_s1=1))
    assert told.reason is not None
    assert (told.pod, told.event, told.level, told.reason.code) == ("p", True, "warning", Code.RESTART_NEEDED)
    assert told.reason.sentence.count(address(1)) == 1


@pytest.mark.parametrize(
    ("held", "pods", "told"),
    [
        pytest.param(binding("p", n0_s0=1), _pods(_pod("p")), True, id="held-by-a-living-pod"),
        pytest.param(binding("p", n0_s0=1), _pods(_pod("p", ended=True)), False, id="by-one-that-is-over"),
        pytest.param(binding("p", n0_s0=1), Pods(), False, id="by-one-that-is-not-known"),
        pytest.param(binding(None, n0_s0=1), _pods(_pod("p")), False, id="not-locked"),
        pytest.param(binding("p", n0_s7=1), _pods(_pod("p")), False, id="other-seats"),
    ],
)
def test_seats_that_are_dealt_while_held(held: Binding, pods: Pods, *, told: bool) -> None:
    """A seat that is dealt though a pod that is known to live has it is told with seat and pod (law 5)."""
    found = list(of_deal(("n0-s0", "n0-s1"), (held,), pods))
    assert told == bool(found)
    for one in found:
        assert one.reason is not None
        assert one.reason.sentence == "the kubelet dealt seat n0-s0 anew while pod p still has it"


# Health

_WELL = situation(hca(1), hca(2), entries=[entry("p", "n0-s0")], bindings=(binding("p", n0_s0=1),))
_ILL = msgspec.structs.replace(_WELL, machine=machine(hca(1, ports=_DOWN), hca(2)), now=1.0)
_BACK = msgspec.structs.replace(_WELL, now=2.0)
_SOUND = msgspec.structs.replace(_WELL, now=12.0)
_GONE = msgspec.structs.replace(_WELL, machine=machine(hca(2)), now=1.0)


def _offers(*situations: Situation) -> list[Offer]:
    books, offers = Books(), []
    for now in situations:
        books, made = offer(now, books, POOL, RULES)
        offers.append(made)
    return offers


@pytest.mark.parametrize(
    ("situations", "expected"),
    [
        pytest.param([_WELL, _WELL], [], id="nothing-new"),
        pytest.param(
            [_WELL, _ILL],
            [
                ("an HCA is not sound", Code.NO_ACTIVE_PORT, None, True),
                ("a pod's HCA is not sound", Code.NO_ACTIVE_PORT, "p", True),
            ],
            id="B-DP-37-falls-ill",
        ),
        pytest.param([_WELL, _ILL, _ILL], [], id="still-ill"),
        pytest.param([_WELL, _ILL, _BACK], [], id="recovering-is-no-news"),
        pytest.param([_WELL, _ILL, _BACK, _SOUND], [("an HCA is sound again", None, None, False)], id="B-DP-38"),
        pytest.param(
            [_WELL, _GONE],
            [
                ("an HCA is not sound", Code.HCA_GONE, None, True),
                ("a pod's HCA is not sound", Code.HCA_GONE, "p", True),
            ],
            id="B-DP-41-gone",
        ),
    ],
)
def test_hcas_that_fall_ill_and_recover(
    situations: list[Situation], expected: list[tuple[str, Code | None, str | None, bool]]
) -> None:
    """The fall of an HCA is told on the node and on each pod that has it, once, and so is its recovery."""
    *_, before, after = _offers(*situations)
    assert expected == _told(of_health(before, after))


def test_another_illness_is_news() -> None:
    """An HCA that is ill otherwise than before is told anew."""
    waiting = msgspec.structs.replace(_ILL, machine=machine(hca(1, ports=(port(PortState.INIT),)), hca(2)))
    before, after = _offers(_ILL, waiting)
    assert [code for _, code, _, _ in _told(of_health(before, after))] == [Code.NO_SUBNET_MANAGER] * 2


def test_an_idle_hca_hurts_nobody() -> None:
    """An HCA that nobody has is told on the node alone."""
    idle = situation(hca(1), hca(2))
    before, after = _offers(idle, msgspec.structs.replace(idle, machine=machine(hca(1, ports=_DOWN), hca(2))))
    assert [pod for _, _, pod, _ in _told(of_health(before, after))] == [None]


def test_all_who_share_an_hca_are_told() -> None:
    """In ib-shared-multi every pod that has the HCA is told, and each once."""
    entries = [entry("p", "n0-s0"), entry("q", "n0-s1", "n0-s2")]
    bindings = (binding("p", n0_s0=1), binding("q", n0_s1=1, n0_s2=1))
    now = situation(hca(1), entries=entries, bindings=bindings, mode=Mode.IB_SHARED_MULTI)
    before, after = _offers(now, msgspec.structs.replace(now, machine=machine(hca(1, ports=_DOWN))))
    assert [pod for _, _, pod, _ in _told(of_health(before, after))] == [None, "p", "q"]


def test_an_agent_that_starts_beside_an_ill_hca_tells_it() -> None:
    """What is ill at the first look is news, too."""
    assert [what for what, *_ in _told(of_health(Offer(), listed(situation(hca(1, ports=_DOWN)))))] == [
        "an HCA is not sound"
    ]


# Machine and mode

_BOND = Excluded(name="mlx5_bond_0", reason=reason(Code.ETHERNET_LINK, device="mlx5_bond_0"))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(Machine(), machine(hca(1)), [("machine", None)], id="first-look"),
        pytest.param(machine(hca(1)), machine(hca(1)), [], id="nothing-new"),
        pytest.param(machine(hca(1)), machine(hca(1), gpus=(beside(1),)), [("machine", None)], id="a-gpu-more"),
        pytest.param(
            machine(hca(1)),
            machine(hca(1), excluded=(_BOND,)),
            [("device left out", Code.ETHERNET_LINK)],
            id="B-DP-5-left-out",
        ),
        pytest.param(
            machine(hca(1), excluded=(_BOND,)), machine(hca(1), excluded=(_BOND,)), [], id="still-left-out"
        ),
        pytest.param(
            machine(hca(1)),
            machine(),
            [("machine", None), ("nothing is offered", Code.NO_RDMA_DEVICES)],
            id="B-DP-15-none-left",
        ),
        pytest.param(machine(), machine(), [], id="still-none"),
    ],
)
def test_what_is_told_of_the_machine(
    before: Machine, after: Machine, expected: list[tuple[str, Code | None]]
) -> None:
    """How much there is, what is left out, and that nothing is offered, each when it is new."""
    assert expected == [(what, code) for what, code, _, _ in _told(of_machine(before, after))]


def test_a_first_look_that_finds_nothing_says_so() -> None:
    """An agent on a node without any RDMA device tells that once at its start."""
    assert _told(of_machine(None, machine())) == [("nothing is offered", Code.NO_RDMA_DEVICES, None, False)]


_UNKNOWN = reason(Code.MODE_LABEL_UNKNOWN, label="x", value="y", instead="nothing new is offered")
_NONE = reason(Code.NO_MODE_LABEL, label="x")
_SET = ModeDecision(mode=Mode.IB_SHARED, source="label")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(None, _SET, [("mode", None, None, False)], id="first"),
        pytest.param(_SET, _SET, [], id="nothing-new"),
        pytest.param(
            _SET,
            ModeDecision(mode=None, source="label", reason=_NONE),
            [("mode", Code.NO_MODE_LABEL, None, False)],
            id="label-taken-away",
        ),
        pytest.param(
            _SET,
            ModeDecision(mode=Mode.IB_SHARED, source="memory", reason=_UNKNOWN),
            [("mode", Code.MODE_LABEL_UNKNOWN, None, True)],
            id="a-label-that-makes-no-sense",
        ),
    ],
)
def test_what_is_told_of_the_mode(
    before: ModeDecision | None,
    after: ModeDecision,
    expected: list[tuple[str, Code | None, str | None, bool]],
) -> None:
    """The mode is told when it or its reason is new, as an Event where somebody meant something else."""
    assert expected == _told(of_mode(before, after))


def test_a_node_that_was_not_asked_yet_is_no_warning() -> None:
    """At each start the API server has not answered yet; that it does not answer later is a warning."""
    asked, refused = (
        ModeDecision(
            mode=None, source="memory", reason=reason(Code.NODE_NOT_SEEN, label="x", detail=why, instead="y")
        )
        for why in ("not answered yet", "connection refused")
    )
    (first,), (later,) = of_mode(None, asked), of_mode(asked, refused)
    assert (first.level, later.level) == ("info", "warning")


def test_what_a_kubelet_lacks_is_told_once() -> None:
    """A second thing that is missing is told, and the first is not told again."""
    preference = reason(Code.PREFERENCE_NOT_ASKED)
    holders = reason(Code.HOLDERS_NOT_TOLD, detail="unknown service")
    assert [one.reason for one in of_lacks((), (holders,))] == [holders]
    assert [one.reason for one in of_lacks((holders,), (holders, preference))] == [preference]
    assert list(of_lacks((holders,), ())) == []
