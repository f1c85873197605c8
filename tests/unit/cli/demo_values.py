"""Small values for the demo's tests: the machine of the demo, and pods that see parts of it."""

from tests.conftest import MACHINES

from railside_cli.demo.hardware import Hardware, hardware, path
from railside_cli.demo.sight import Seen, Told
from railside_sim.manifest import read_manifest

MACHINE = MACHINES / "ecs.hpcpni3.45xlarge.machine"


def the_hardware() -> Hardware:
    return hardware(read_manifest(MACHINE))


def pod(name: str, *hcas: str, gpus: tuple[int, ...] = (), told: tuple[str, ...] = ()) -> Seen:
    """A pod that sees these; what it reads is true unless ``told`` says otherwise."""
    whole = the_hardware()
    cards = tuple(whole.called(one) for one in hcas)
    held = tuple(whole.gpus[number] for number in gpus)
    words = told or tuple(path(gpu, hca).name for gpu, hca in zip(held, cards, strict=False))
    return Seen(
        pod=name,
        hcas=cards,
        gpus=held,
        nodes=("rdma_cm", *(card.key for card in cards)),
        told=tuple(Told(gpu=gpu, hca=hca, path=word) for gpu, hca, word in zip(held, cards, words, strict=False)),
    )
