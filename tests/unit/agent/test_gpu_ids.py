import msgspec
import pytest
from tests.unit.builders import gpu, machine

from railside_agent.gpu_ids import locate
from railside_proto.machine import Gpu, Machine

_UUID = "GPU-8b938a01-0274-c6b2-7d36-58bbf68415a9"
_OTHER = "GPU-aee77262-31be-d1c5-7bbf-cc641683439a"


def _gpu(number: int, **facts: object) -> Gpu:
    return msgspec.structs.replace(gpu(number, ("pci0000:15",)), **facts)


_NVIDIA = machine(gpus=(_gpu(0x18, uuid=_UUID), _gpu(0x29, uuid=_OTHER), _gpu(0x3A)))
_AMD = machine(gpus=(_gpu(0x0C, vendor="amd"), _gpu(0x15, vendor="amd")))
_MIXED = machine(gpus=(_gpu(0x0C, vendor="amd"), _gpu(0x18, uuid=_UUID)))


def _located(dealt: str, there: Machine) -> str | None:
    (located,) = locate([dealt], there)
    assert located.id == dealt
    return None if located.gpu is None else located.gpu.address


@pytest.mark.parametrize(
    ("dealt", "there", "expected"),
    [
        pytest.param(_UUID, _NVIDIA, "0000:18:00.0", id="uuid"),
        pytest.param(_OTHER.upper(), _NVIDIA, "0000:29:00.0", id="uuid-in-capitals"),
        pytest.param(f"{_UUID}::3", _NVIDIA, "0000:18:00.0", id="time-slicing"),
        pytest.param(f"MIG-{_OTHER}/1/0", _NVIDIA, "0000:29:00.0", id="mig-of-old-drivers"),
        pytest.param(f"MIG-{_OTHER}/1/0::2", _NVIDIA, "0000:29:00.0", id="time-slicing-of-mig"),
        pytest.param("MIG-5c1d0b2e-8d1c-5f0e-9c87-3d2b6e1f4a90", _NVIDIA, None, id="mig"),
        pytest.param("0", _NVIDIA, "0000:18:00.0", id="first-index"),
        pytest.param("2", _NVIDIA, "0000:3a:00.0", id="index-of-one-without-uuid"),
        pytest.param("1::0", _NVIDIA, "0000:29:00.0", id="time-slicing-of-an-index"),
        pytest.param("3", _NVIDIA, None, id="index-beyond-the-last"),
        pytest.param("0", _MIXED, "0000:18:00.0", id="indexes-count-nvidias-alone"),
        pytest.param("0", _AMD, None, id="amd-has-no-indexes"),
        pytest.param("0000:15:00.0", _AMD, "0000:15:00.0", id="amd-by-address"),
        pytest.param("00000000:18:00.0", _NVIDIA, "0000:18:00.0", id="address-as-nvidia-prints-it"),
        pytest.param("amdgpu_xcp_3", _AMD, None, id="part-of-an-amd-gpu"),
        pytest.param("GPU-00000000-0000-0000-0000-000000000000", _NVIDIA, None, id="unknown-uuid"),
        pytest.param("", _NVIDIA, None, id="empty"),
        pytest.param("::1", _NVIDIA, None, id="share-of-nothing"),
        pytest.param("\u0661", _NVIDIA, None, id="digit-of-another-script"),
        pytest.param(_UUID, Machine(), None, id="no-gpu"),
    ],
)
def test_the_gpu_of_an_id(dealt: str, there: Machine, expected: str | None) -> None:
    """Ids of every kind that plugins deal are joined, and what cannot be has no path."""
    assert expected == _located(dealt, there)


def test_a_uuid_that_two_gpus_claim_names_none() -> None:
    """A driver that repeats itself is not believed."""
    assert _located(_UUID, machine(gpus=(_gpu(0x18, uuid=_UUID), _gpu(0x29, uuid=_UUID.upper())))) is None


def test_ids_stay_in_their_order() -> None:
    """Each id has an answer at its own place, and several may mean one GPU."""
    found = locate([f"{_OTHER}::1", "unknown", f"{_OTHER}::0"], _NVIDIA)
    assert [one.gpu.address if one.gpu else None for one in found] == ["0000:29:00.0", None, "0000:29:00.0"]
