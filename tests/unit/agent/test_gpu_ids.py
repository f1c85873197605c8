import pytest
from tests.unit.agent.situations import beside
from tests.unit.builders import gpu, machine

from railside_agent.gpu_ids import locate
from railside_proto.machine import Gpu

_NAMELESS = gpu(9, ("pci0000:09",))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("GPU-1", beside(1), id="uuid"),
        pytest.param("GPU-2::7", beside(2), id="time-slice"),
        pytest.param("GPU-3", None, id="unknown"),
        pytest.param("MIG-GPU-1", None, id="mig"),
        pytest.param("", None, id="empty"),
    ],
)
def test_which_gpu_an_id_means(name: str, expected: Gpu | None) -> None:
    """An id names a GPU by its UUID, a slice's number aside; a GPU without a UUID is never named."""
    (found,) = locate([name], machine(gpus=(beside(1), beside(2), _NAMELESS)))
    assert (name, expected) == (found.id, found.gpu)
