"""Harms that come by chance on the real kubelet, tried until they do: how often is told, and not judged.

It answers for ``tests/cluster/run tests/cluster/proof_harms.py``. It must not test the agent.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest

from asking import DEAF, status
from ground import Ground
from railside_proto.names import GPU_RESOURCE
from test_harm_listing import deal_behind_an_end

pytestmark = pytest.mark.timeout(1800)

TRIES = 60
CONTROLS_A_TRY = 3
MAX_CONTROLS = 30

A_BATCH = 8
FEW, MANY = 40, 80
"""Pods: so many are looked at in any case, and so many at most until both orders were seen."""

RESTARTED = 16
ONCE = ("sh", "-c", "test -e /kept/ran || { touch /kept/ran; exit 1; }; sleep 100000")
"""Ends at its first start, and runs at the second."""

WHO = "WHOSE_WORD"
TELLS = ("sh", "-c", f"echo ${WHO}; trap 'exit 0' TERM; sleep 100000 & wait")
"""Tells which of two plugins' values its environment has."""

Say = Callable[[str], None]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]) -> Say:
    """Print what was measured, whatever becomes of the test."""

    def tell(figure: str) -> None:
        record_property("measured", figure)
        with capsys.disabled():
            sys.stdout.write(f"\n  measured: {figure}\n")

    return tell


def test_a_list_of_pods_gives_one_hca_to_two(on: Ground, say: Say) -> None:
    """Law 5: left to itself the kubelet comes to choose an HCA that it dealt before, and only behind a List."""
    tries = next((count for count in range(1, TRIES + 1) if dealt_twice(on, lists=True)), None)
    say(f"with a List one HCA was dealt to two pods at try {tries} of at most {TRIES}")
    assert tries is not None

    controls = min(CONTROLS_A_TRY * tries, MAX_CONTROLS)
    twice = sum(dealt_twice(on, lists=False) for _ in range(controls))
    say(f"without one an HCA was dealt to two pods in {twice} of {controls} tries")
    assert twice == 0


def dealt_twice(on: Ground, *, lists: bool) -> bool:
    """Whether two pods get one HCA of two; the kubelet chooses at random."""
    plugin = on.plugin({"h0": 0, "h1": 0})
    on.start(on.pod("ending", *DEAF))
    deal_behind_an_end(on, plugin, lists=lists)
    twice = on.held("second") == on.held("third")
    on.clear()
    return twice


def test_a_container_that_has_restarted_once(on: Ground, say: Say) -> None:
    """Law 3: a late plugin kills a pod or not, as the kubelet looks at its ended container or at the new one."""
    plugin = on.plugin({f"h{number}": 0 for number in range(RESTARTED)})
    pods = [f"restarted-{number}" for number in range(RESTARTED)]
    on.ask(*(on.pod(name, *ONCE) for name in pods))
    for name in pods:
        on.becomes(name, lambda pod: pod.running and status(pod).restart_count == 1)
    before = on.refusals()
    plugin.end()

    assert on.restart_kubelet(list_comes=None)
    refused = on.refusals() - before

    say(f"{refused} of {RESTARTED} pods whose container had restarted once were killed")
    assert 0 < refused < RESTARTED


def test_two_plugins_of_one_container(on: Ground, say: Say) -> None:
    """Either of two plugins may be asked first, and either's value wins where both set one variable."""
    order: list[str] = []
    hcas = on.plugin({f"h{number}": 0 for number in range(A_BATCH)}, envs={WHO: "hca"})
    gpus = on.plugin(
        {f"g{number}": 0 for number in range(A_BATCH)},
        resource=GPU_RESOURCE,
        socket="gpu.sock",
        envs={WHO: "gpu"},
    )
    hcas.hold_up("allocate", lambda: order.append("hca"))
    gpus.hold_up("allocate", lambda: order.append("gpu"))

    words = [word for batch in batches(order) for word in told_by(on, batch)]
    first, won = Counter(order[::2]), Counter(words)

    say(f"the GPU's plugin was asked first for {first['gpu']} of {len(words)} containers")
    say(f"the GPU's plugin won the common variable in {won['gpu']} of {len(words)}")
    assert set(zip(order[::2], order[1::2], strict=True)) == {("hca", "gpu"), ("gpu", "hca")}
    assert set(won) == {"hca", "gpu"}


def batches(order: Sequence[str]) -> Iterator[list[str]]:
    """Names of pods, until there have been enough."""
    for start in range(0, MANY, A_BATCH):
        if start < FEW or len(set(order[::2])) < 2:
            yield [f"pod-{number}" for number in range(start, start + A_BATCH)]


def told_by(on: Ground, pods: Sequence[str]) -> list[str]:
    """What each pod's environment has; they are gone by then."""
    on.start(*(on.pod(name, *TELLS, gpus=1) for name in pods))
    words = [on.kubectl.wait_log(name, "\n").strip() for name in pods]
    on.remove(*pods)
    return words
