from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railside_proto.names import GPU_RESOURCE, RESOURCE
from railside_proto.podspec import Kind, Nonsense, PodAsk, read_pod_ask
from railside_sim import pod_spec as judge

HCA, GPU = RESOURCE, GPU_RESOURCE
_WHOLE = {"cpu": "4", "memory": "1Gi"}

Asked = Mapping[str, object]
Spec = dict[str, Any]


def container(name: str = "main", limits: Asked | None = None, requests: Asked | None = None) -> Spec:
    """A container as the API server gives it: what is not requested is requested as the limit."""
    limits = limits or {}
    return {"name": name, "resources": {"limits": limits, "requests": {**limits, **(requests or {})}}}


init = container


def sidecar(name: str, limits: Asked | None = None, requests: Asked | None = None) -> Spec:
    return {**container(name, limits, requests), "restartPolicy": "Always"}


def spec(*main: Spec, before: tuple[Spec, ...] = (), **fields: object) -> Spec:
    return {"initContainers": list(before), "containers": list(main), **fields}


def read(written: Mapping[str, object]) -> PodAsk | Nonsense:
    return read_pod_ask(msgspec.json.encode(written))


def asked(written: Mapping[str, object]) -> PodAsk:
    """What a pod asks for that makes sense."""
    ask = read(written)
    assert isinstance(ask, PodAsk)
    return ask


# Devices


def test_a_container_asks_by_its_limits() -> None:
    """Extended resources are counted, sorted, and nothing else is."""
    limits = {HCA: "8", GPU: "8", "cpu": "4", "memory": "1Gi", "ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi"}
    (one,) = asked(spec(container("main", limits))).containers
    assert (one.name, one.kind, one.counts) == ("main", Kind.MAIN, ((GPU, 8), (HCA, 8)))
    assert (one.count(HCA), one.count("example.com/none")) == (8, 0)


@pytest.mark.parametrize(
    "name",
    ["cpu", "pods", "kubernetes.io/batch", "batch.kubernetes.io/cpu", "requests.example.com/one", "hugepages-2Mi"],
)
def test_what_no_plugin_may_register_is_no_device(name: str) -> None:
    """Names of Kubernetes' own are never dealt by the device manager."""
    assert asked(spec(container(limits={name: "1"}))).total() == ()


@pytest.mark.parametrize(
    ("quantity", "count"), [("1", 1), (1, 1), (1.5, 2), ("1500m", 2), ("1n", 1), ("1k", 1000), ("0.5Ki", 512)]
)
def test_a_part_of_a_device_is_a_device(quantity: object, count: int) -> None:
    """Limits are rounded up to whole devices."""
    assert asked(spec(container(limits={HCA: quantity}))).total() == ((HCA, count),)


def test_none_of_a_resource_is_told_apart() -> None:
    """A limit of 0 is no count, but a name that the kubelet aligns; of the pod only where nobody wants more."""
    ask = asked(spec(container("a", {HCA: "0", GPU: "0"}), container("b", {HCA: "1"})))
    assert [(one.counts, one.zeros) for one in ask.containers] == [((), (GPU, HCA)), (((HCA, 1),), ())]
    assert (ask.total(), ask.zeros()) == (((HCA, 1),), (GPU,))


def test_devices_do_not_hang_on_the_class() -> None:
    """A pod of any QoS class asks for its devices (B-SC-62)."""
    classes = [
        asked(spec(container(limits={HCA: "2", GPU: "2"}))),
        asked(spec(container(limits={HCA: "2", GPU: "2"}, requests={"cpu": "1"}))),
        asked(spec(container(limits={HCA: "2", GPU: "2", **_WHOLE}))),
    ]
    assert [one.guaranteed for one in classes] == [False, False, True]
    assert {one.total() for one in classes} == {((GPU, 2), (HCA, 2))}


def test_containers_come_in_the_order_of_dealing() -> None:
    """Init containers and sidecars as they are written, then the main ones."""
    pod = spec(container("m1"), container("m2"), before=(init("i1"), sidecar("s1"), init("i2")))
    assert [(one.name, one.kind) for one in asked(pod).containers] == [
        ("i1", Kind.INIT),
        ("s1", Kind.SIDECAR),
        ("i2", Kind.INIT),
        ("m1", Kind.MAIN),
        ("m2", Kind.MAIN),
    ]


def test_only_an_init_container_that_always_restarts_is_a_sidecar() -> None:
    """Other restart policies of containers change nothing."""
    pod = spec({**container("m"), "restartPolicy": "Always"}, before=({**init("i"), "restartPolicy": "Never"},))
    assert [one.kind for one in asked(pod).containers] == [Kind.INIT, Kind.MAIN]


@pytest.mark.parametrize(
    ("before", "main", "total"),
    [
        pytest.param((), (2, 3), 5, id="main containers add up"),
        pytest.param((("init", 2), ("init", 3)), (1,), 3, id="init containers take turns (B-SC-42)"),
        pytest.param((("init", 2),), (3, 4), 7, id="the main ones use an init container's again"),
        pytest.param((("sidecar", 2),), (3,), 5, id="a sidecar adds to the main ones (B-SC-14)"),
        pytest.param((("sidecar", 8),), (8,), 16, id="a sidecar of eight beside eight (B-SC-15)"),
        pytest.param((("sidecar", 2), ("sidecar", 3)), (), 5, id="sidecars add up (B-SC-42)"),
        pytest.param((("sidecar", 2), ("init", 5)), (3,), 7, id="an init container runs beside earlier sidecars"),
        pytest.param((("init", 5), ("sidecar", 2)), (3,), 5, id="and not beside later ones"),
        pytest.param((("sidecar", 1), ("init", 4), ("sidecar", 2), ("init", 3)), (1,), 6, id="each in its moment"),
        pytest.param((("init", 0),), (0,), 0, id="none"),
    ],
)
def test_what_a_pod_needs_at_once(before: tuple[tuple[str, int], ...], main: tuple[int, ...], total: int) -> None:
    """The hungriest moment counts: each init container beside the sidecars begun before it, or all that stay."""
    kinds = {"init": init, "sidecar": sidecar}
    pod = spec(
        *(container(f"m{place}", {HCA: str(count)}) for place, count in enumerate(main)),
        before=tuple(kinds[kind](f"i{place}", {HCA: str(count)}) for place, (kind, count) in enumerate(before)),
    )
    ask = asked(pod)
    assert ask.most_at_once(HCA) == total
    assert ask.total() == (((HCA, total),) if total else ())


def test_each_resource_has_a_moment_of_its_own() -> None:
    """One resource may be most wanted by an init container, and another by the main ones."""
    ask = asked(spec(container(limits={HCA: "1", GPU: "8"}), before=(init("i", {HCA: "4", GPU: "1"}),)))
    assert ask.total() == ((GPU, 8), (HCA, 4))


def test_overhead_and_ephemeral_containers_ask_for_no_device() -> None:
    """What runs the pod, and what looks into it, is in nobody's count."""
    plain = spec(container(limits={HCA: "1"}))
    extra = {"overhead": {"cpu": "1", HCA: "5"}, "ephemeralContainers": [container("look", {HCA: "7"})]}
    assert asked({**plain, **extra}) == asked(plain)


# CPUs and memory


@pytest.mark.parametrize(
    ("guaranteed", "pod"),
    [
        pytest.param(True, spec(container(limits=_WHOLE)), id="limits alone"),
        pytest.param(True, spec(container(limits=_WHOLE, requests=_WHOLE)), id="requests equal to the limits"),
        pytest.param(True, spec(container(limits=_WHOLE, requests={"cpu": "4000m"})), id="in another spelling"),
        pytest.param(True, spec(container(limits=_WHOLE), before=(init("i", _WHOLE),)), id="init containers, too"),
        pytest.param(True, spec(container(limits={**_WHOLE, "ephemeral-storage": "1"})), id="whatever else"),
        pytest.param(False, spec(container(limits=_WHOLE, requests={"cpu": "3"})), id="fewer CPUs requested"),
        pytest.param(False, spec(container(limits=_WHOLE, requests={"memory": "1"})), id="less memory requested"),
        pytest.param(False, spec(container(limits={"cpu": "4"})), id="no limit of memory"),
        pytest.param(False, spec(container(limits={"memory": "1Gi"})), id="no limit of CPUs"),
        pytest.param(False, spec(container(limits={**_WHOLE, "cpu": "0"})), id="a limit of no CPU"),
        pytest.param(False, spec(container(requests=_WHOLE)), id="requests alone"),
        pytest.param(False, spec(container(limits=_WHOLE), container("b")), id="one container without"),
        pytest.param(False, spec(container(limits=_WHOLE), before=(init("i"),)), id="an init container without"),
        pytest.param(False, spec(container(limits=_WHOLE), before=(sidecar("s"),)), id="a sidecar without"),
        pytest.param(False, spec(container()), id="nothing at all"),
        pytest.param(False, spec(), id="no container at all"),
        pytest.param(False, {"containers": [{"name": "a"}]}, id="no word of resources"),
    ],
)
def test_which_pods_are_guaranteed(pod: Spec, *, guaranteed: bool) -> None:
    """Every container has limits of CPU and memory, and all request as much as they may use."""
    assert asked(pod).guaranteed is guaranteed


@pytest.mark.parametrize(
    ("guaranteed", "resources", "main"),
    [
        pytest.param(True, {"limits": _WHOLE, "requests": _WHOLE}, {}, id="the pod's instead of none"),
        pytest.param(True, {"limits": _WHOLE, "requests": _WHOLE}, {"cpu": "1"}, id="the pod's instead of others"),
        pytest.param(False, {"limits": _WHOLE, "requests": {**_WHOLE, "cpu": "1"}}, _WHOLE, id="fewer CPUs"),
        pytest.param(False, {"limits": {"cpu": "4"}, "requests": {"cpu": "4"}}, _WHOLE, id="no memory"),
        pytest.param(False, {}, _WHOLE, id="present and empty, as the API server has it"),
    ],
)
def test_resources_of_the_pod_decide_its_class(resources: Asked, main: Asked, *, guaranteed: bool) -> None:
    """Where the pod as a whole has resources, its containers' do not count for the QoS class."""
    assert asked(spec(container(limits=main), resources=resources)).guaranteed is guaranteed


def test_resources_of_the_pod_leave_devices_and_take_cpus() -> None:
    """With resources of the pod as a whole devices are asked for as ever, and nothing else is set aside."""
    limits = {**_WHOLE, HCA: "1"}
    ask = asked(spec(container(limits=limits), resources={"limits": _WHOLE, "requests": _WHOLE}))
    assert (ask.guaranteed, ask.total(), ask.cpus, ask.memory_bytes) == (True, ((HCA, 1),), 0, 0)


@pytest.mark.parametrize(
    ("cpu", "cpus"),
    [("1", 1), ("4", 4), ("4000m", 4), ("0.5k", 500), ("1500m", 0), ("500m", 0), ("3999.1m", 4), (2, 2), (2.5, 0)],
)
def test_whole_cpus_are_given_alone(cpu: object, cpus: int) -> None:
    """A whole number of CPUs, in thousandths rounded up, is exclusive, and any other is none."""
    (one,) = asked(spec(container(limits={"cpu": cpu, "memory": "1Gi"}))).containers
    assert one.cpus == cpus


def test_only_guaranteed_pods_have_cpus_and_memory_alone() -> None:
    """A whole number of CPUs gives a pod of another class nothing of its own."""
    ask = asked(spec(container(limits={"cpu": "4", "memory": "2Gi"}, requests={"memory": "1Gi"})))
    assert (ask.cpus, ask.memory_bytes) == (0, 0)


def test_cpus_and_memory_have_their_hungriest_moment_too() -> None:
    """CPUs and memory add up as devices do, each container's fraction of a CPU for nothing."""
    pod = spec(
        container("a", {"cpu": "2", "memory": "1Gi"}),
        container("b", {"cpu": "1500m", "memory": "1Gi"}),
        before=(sidecar("s", {"cpu": "1", "memory": "1Mi"}), init("i", {"cpu": "8", "memory": "1Mi"})),
    )
    ask = asked(pod)
    assert [one.cpus for one in ask.containers] == [1, 8, 2, 0]
    assert (ask.cpus, ask.memory_bytes) == (9, 2 * 1024**3 + 1024**2)


def test_requests_default_to_the_limits() -> None:
    """A spec that no API server has filled in asks for the same."""
    bare = {"containers": [{"name": "main", "resources": {"limits": {**_WHOLE, HCA: "1"}}}]}
    assert asked(bare) == asked(spec(container(limits={**_WHOLE, HCA: "1"})))


# Nonsense


@pytest.mark.parametrize(
    ("pod", "sentence"),
    [
        (
            spec(container(limits={HCA: "-1"})),
            f"container main asks for '-1' of {HCA}, which is less than nothing",
        ),
        (
            spec(container(), before=(init("first", {GPU: "one"}),)),
            f"container first asks for 'one' of {GPU}, which is no quantity",
        ),
        (
            spec(container(limits={GPU: "10E"})),
            f"container main asks for '10E' of {GPU}, which is more than can be counted",
        ),
        (
            spec(container(requests={"cpu": ""})),
            "container main asks for '' of cpu, which is no quantity",
        ),
        (
            spec(container(), resources={"limits": {"memory": "-1Gi"}}),
            "the pod asks for '-1Gi' of memory, which is less than nothing",
        ),
        (
            spec(container(limits={HCA: "x" * 1000})),
            f"container main asks for '{'x' * 40}…' of {HCA}, which is no quantity",
        ),
    ],
)
def test_nonsense_is_told_in_a_sentence(pod: Spec, sentence: str) -> None:
    """A pod that asks for what nobody can give says who asks for what, and never raises."""
    assert read(pod) == Nonsense(sentence=sentence)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b'{"containers": [{"name": 1}]}',
        b'{"containers": [{"name": "a", "resources": {"limits": {"example.com/a": true}}}]}',
        b'{"containers": ' + b"[" * 100_000,
    ],
)
def test_a_spec_that_cannot_be_read_is_nonsense(text: bytes) -> None:
    """What is not the JSON of a pod's spec is told as such, and never raises."""
    ask = read_pod_ask(text)
    assert isinstance(ask, Nonsense)
    assert ask.sentence.startswith("the pod's spec cannot be read: ")


def test_a_quantity_that_counts_for_nothing_here_may_be_anything() -> None:
    """What is neither CPU, memory nor a device is not looked at."""
    assert asked(spec(container(limits={"ephemeral-storage": "lots", HCA: "1"}))).total() == ((HCA, 1),)


# Values


def test_equal_asks_are_one_key() -> None:
    """Pods that ask alike find the same place in a dictionary, whatever else they are."""
    one, other = spec(container(limits={HCA: "1"})), spec(container(limits={HCA: "1000m"}), nodeName="elsewhere")
    assert {asked(one): "found"}[asked(other)] == "found"


_NAMES = ("example.com/a", "example.com/b")
_LIMITS = st.dictionaries(st.sampled_from(_NAMES), st.integers(0, 5))
_CONTAINERS = st.tuples(
    st.lists(st.tuples(_LIMITS, st.booleans()), max_size=5), st.lists(_LIMITS, min_size=1, max_size=3)
)


def _written(containers: tuple[list[tuple[Asked, bool]], list[Asked]]) -> Spec:
    before, main = containers
    kinds = {True: sidecar, False: init}
    return spec(
        *(container(f"m{place}", limits) for place, limits in enumerate(main)),
        before=tuple(kinds[stays](f"i{place}", limits) for place, (limits, stays) in enumerate(before)),
    )


def _judged(pod: Spec) -> judge.Pod:
    def container_of(one: Spec) -> judge.ContainerSpec:
        return judge.ContainerSpec(
            name=one["name"], requests=one["resources"]["limits"], restartable="restartPolicy" in one
        )

    return judge.Pod(
        name="pod",
        containers=tuple(map(container_of, pod["containers"])),
        init_containers=tuple(map(container_of, pod["initContainers"])),
    )


@given(containers=_CONTAINERS)
def test_the_judge_counts_the_same(containers: tuple[list[tuple[Asked, bool]], list[Asked]]) -> None:
    """The embedded kubelet, which was written apart, has the same containers in order and the same totals."""
    pod = _written(containers)
    ask, judged = asked(pod), _judged(pod)
    assert [one.name for one in ask.containers] == [one.name for one in judged.in_order()]
    assert dict(ask.total()) == {name: count for name, count in judged.total().items() if count}


@given(containers=_CONTAINERS)
def test_a_pod_needs_what_each_container_needs(containers: tuple[list[tuple[Asked, bool]], list[Asked]]) -> None:
    """The total is never below one container's count, nor above the sum of all."""
    ask = asked(_written(containers))
    for name, total in ask.total():
        counts = [one.count(name) for one in ask.containers]
        assert max(counts) <= total <= sum(counts)
