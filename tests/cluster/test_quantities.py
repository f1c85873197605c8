"""What the API server makes of what pods ask for: railside_proto reads the same out of it.

It answers for quantities and QoS classes, asked of the real API server by pods that are created on trial only. It
must not run a pod, nor test what a kubelet makes of one.
"""

import json
import random
from typing import Any

import msgspec
import pytest

from harness import objects
from harness.kubectl import Kubectl
from railside_proto.podspec import PodAsk, read_pod_ask
from railside_proto.quantity import BILLION, parse, round_up, whole

CREATED, NO_QUANTITY, INVALID = 201, 400, 422
ON_TRIAL = f"{objects.Pod.PATH.format(namespace='default')}?dryRun=All"
DEVICE = "example.com/device"
MILLI = BILLION // 1000
DRAWN_TEXTS, DRAWN_PODS = 100, 100
HALF, OFTEN = 0.5, 0.9
HERE = '"HERE"'
"""What stands in a pod's JSON in place of a quantity's own spelling."""

TEXTS = (
    *("0", "1", "8", "+8", "-8", "-0", "+0.0", "007", "1.", "1.k", ".5", "+.5Gi", "1.50", "00.100"),
    *("1n", "999n", "1u", "1m", "1500m", "2k", "2M", "2G", "2T", "2P", "2E", "1.5k", "0.001k"),
    *("1Ki", "1023", "1024", "1.5Ki", "0.5Mi", "2Gi", "2Ti", "2Pi", "2Ei", "1.7Ei", "0.1Ki", ".0001Ki"),
    *("1e3", "1E3", "1e+3", "1E-2", "1e-9", "1e-12", "1.5e0", "1E", "1e0", "12e18", "1e20", "1.23E-4"),
    *("0.1n", "1.0000000001", "3999.1m", "1e-20", "9223372036854775807", "9223372036854775808", "8Ei", "10E"),
    *("123456789012345678901234567890", "1e4294967296", "1e4294967299", "0.000000000000000001Ei"),
    *("", "1e", "1e+", "1e3.5", "1e3k", "1ke3", "1ee3", "1e99999999999999999999", "1 k", "1\n"),
    *(
        "1K",
        "1ki",
        "1g",
        "1i",
        "1mi",
        "1ni",
        "1kk",
        "1Kim",
        "1B",
        "1.1.1",
        "1,5",
        "1_000",
        "--1",
        "0x1",
        "one",
        "1e-",
    ),
)
"""None has an exponent of millions, which the API server would multiply out."""


def on_trial(kubectl: Kubectl, spec: dict[str, object], quantity: str = HERE) -> tuple[int, dict[str, Any]]:
    """The API server's status and answer for a pod, with ``quantity`` spelt in it as it is."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "on-trial"}, "spec": spec}
    answer = kubectl.client.post(ON_TRIAL, json.dumps(pod).replace(HERE, quantity))
    return answer.status, json.loads(answer.body)


def limited(kubectl: Kubectl, resource: str, quantity: str) -> tuple[int, str | None]:
    """The status, and how the limit of a resource came back; ``quantity`` is as JSON has it."""
    container = {"name": "main", "image": "none", "resources": {"limits": {resource: json.loads(HERE)}}}
    status, answer = on_trial(kubectl, {"containers": [container]}, quantity)
    if status != CREATED:
        return status, None
    text: str = answer["spec"]["containers"][0]["resources"]["limits"][resource]
    return status, text


def expected(parts: int | None) -> int:
    """How the API server answers to so many billionths of a CPU."""
    if parts is None:
        return NO_QUANTITY
    return INVALID if parts < 0 else CREATED


def differs(kubectl: Kubectl, quantity: str) -> str | None:
    """What the API server makes of a quantity that we do not; pods keep thousandths, rounded up."""
    parts = parse(msgspec.json.decode(quantity, type=str | int | float))
    status, back = limited(kubectl, "cpu", quantity)
    same = status == expected(parts)
    if parts is not None and back is not None:
        same = same and parse(back) == round_up(parts, MILLI) * MILLI
    return None if same else f"{quantity}: {status} and {back}, and we read {parts}"


@pytest.mark.parametrize("text", TEXTS)
def test_texts_are_read_alike(kubectl: Kubectl, text: str) -> None:
    """What is a quantity for the API server is one for us, of the same value."""
    assert differs(kubectl, json.dumps(text)) is None


@pytest.mark.parametrize(
    "number", ["0", "1", "-1", "1.5", "1e3", "1E-2", "0.0001", "-0", "1e20", "18446744073709551616"]
)
def test_numbers_are_read_alike(kubectl: Kubectl, number: str) -> None:
    """A number of JSON is a quantity of the same value."""
    assert differs(kubectl, number) is None


def test_drawn_texts_are_read_alike(kubectl: Kubectl, seed: int) -> None:
    """Digits, points, signs and suffixes in any order are quantities for both or for none."""
    chance = random.Random(seed)  # noqa: S311 -- told, to be drawn again
    texts = [_drawn_text(chance) for _ in range(DRAWN_TEXTS)]
    assert [found for text in texts if (found := differs(kubectl, json.dumps(text)))] == []


def _drawn_text(chance: random.Random) -> str:
    """A sign, a number and a suffix, now and then with something out of place."""
    digits = "".join(chance.choices("0123456789", k=chance.choice((1, 2, 3, 8, 20))))
    place = chance.randrange(len(digits) + 1)
    number = chance.choice((digits, f"{digits[:place]}.{digits[place:]}"))
    suffixes = ["", *"numkMGTPE", *(f"{letter}i" for letter in "KMGTPE"), "i", "K", "mi", "Em", "e", "ee1"]
    exponent = f"{chance.choice('eE')}{chance.choice(('', '+', '-'))}{chance.randrange(30)}"
    return f"{chance.choice(('', '', '+', '-'))}{number}{chance.choice((*suffixes, exponent, exponent))}"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        *((text, CREATED) for text in ("+", "-", ".", "k", "Ki", "e3", ".m", "Ti")),
        *((text, NO_QUANTITY) for text in ("e", "Pi", "Ei", "i")),
    ],
)
def test_a_text_without_a_digit_is_nothing(kubectl: Kubectl, text: str, status: int) -> None:
    """Some such texts are 0 for the API server, which never gives them back; for us none is a quantity."""
    assert limited(kubectl, "cpu", json.dumps(text)) == (status, "0" if status == CREATED else None)
    assert parse(text) is None


@pytest.mark.parametrize("text", [" 1", "1 ", "  1.5  "])
def test_spaces_are_taken_off_before(kubectl: Kubectl, text: str) -> None:
    """Spaces around a quantity do not come back from the API server; for us they are none of it."""
    status, back = limited(kubectl, "cpu", json.dumps(text))
    assert status == CREATED
    assert back is not None
    assert parse(back) == parse(text.strip())
    assert parse(text) is None


@pytest.mark.parametrize(
    "text", ["0", "1", "8", "2000m", "1.0", "1k", "0.5k", "1.5Ki", "1e3", "1500m", "0.5", "1n", "-1", "1.00001"]
)
def test_devices_are_whole(kubectl: Kubectl, text: str) -> None:
    """A device's limit that is no whole number never gets past the API server, so that no sum is rounded."""
    parts = parse(text) or 0
    status, back = limited(kubectl, DEVICE, json.dumps(text))
    assert status == (CREATED if parts >= 0 and not round_up(parts, MILLI) % 1000 else INVALID)
    assert back is None or whole(back) == whole(text)


def test_drawn_pods_are_of_the_same_class(kubectl: Kubectl, seed: int) -> None:
    """A pod is Guaranteed for us where it is for the API server, which fills in nothing that we miss."""
    chance = random.Random(seed)  # noqa: S311 -- told, to be drawn again
    classes = set()
    for _ in range(DRAWN_PODS):
        spec = _drawn_pod(chance)
        status, pod = on_trial(kubectl, spec)
        assert status in {CREATED, INVALID}
        if status == CREATED:
            ask = read_pod_ask(json.dumps(pod["spec"]).encode())
            assert isinstance(ask, PodAsk)
            assert ask.guaranteed == (pod["status"]["qosClass"] == "Guaranteed"), spec
            assert "resources" in spec or ask == read_pod_ask(json.dumps(spec).encode())
            classes.add((pod["status"]["qosClass"], "resources" in spec))
    assert classes >= {("Guaranteed", False), ("Burstable", False), ("Guaranteed", True), ("Burstable", True)}


def _drawn_pod(chance: random.Random) -> dict[str, object]:
    """Some are refused, as containers may want more than their pod."""
    level = {"resources": _drawn_resources(chance, ("4", "8"), ("4Gi", "8Gi"))} if chance.random() < HALF else {}
    return {
        "containers": [_drawn_container(chance, f"main{number}") for number in range(chance.randint(1, 2))],
        "initContainers": [
            {**_drawn_container(chance, f"init{number}"), **chance.choice(({}, {"restartPolicy": "Always"}))}
            for number in range(chance.choice((0, 0, 1)))
        ],
        **level,
    }


def _drawn_container(chance: random.Random, name: str) -> dict[str, object]:
    resources = _drawn_resources(chance, ("1", "1000m", "0.5"), ("1Gi", "1Gi", "1024Mi", "0"))
    return {"name": name, "image": "none", "resources": resources}


def _drawn_resources(chance: random.Random, cpus: tuple[str, ...], memory: tuple[str, ...]) -> dict[str, object]:
    """Limits of both in most cases, and the same requests in half of them, else of both, one or none."""
    limits = {
        name: chance.choice(of) for name, of in (("cpu", cpus), ("memory", memory)) if chance.random() < OFTEN
    }
    some = {name: chance.choice((text, "1m")) for name, text in limits.items() if chance.random() < HALF}
    return {"limits": limits, "requests": limits if chance.random() < HALF else some}
