import sysconfig
from pathlib import Path

import pytest
from tests.hotplug.testbed import Testbed

from railside_agent.pyverbs_library import load_pyverbs
from railside_agent.verbs import VerbsError

_DISTRIBUTION = Path("/usr/lib/python3/dist-packages/pyverbs")
_MODULE = _DISTRIBUTION / f"device{sysconfig.get_config_var('EXT_SUFFIX')}"
_TRIES = 100


@pytest.fixture
def _pyverbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The distribution's pyverbs, and nothing else of its packages."""
    assert _MODULE.exists(), "pyverbs of the distribution is for another Python than this one"
    (tmp_path / "pyverbs").symlink_to(_DISTRIBUTION)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("_pyverbs")
def test_real_pyverbs_without_devices(testbed: Testbed) -> None:
    """Real pyverbs on a kernel without RDMA raises an error of its own, which becomes our sentence."""
    assert testbed is not None
    with pytest.raises(VerbsError, match=r"mlx5_0 cannot be opened \(Failed to get devices list"):
        load_pyverbs().open("mlx5_0")


@pytest.mark.usefixtures("_pyverbs")
def test_real_pyverbs_on_a_device_that_it_may_not_open(testbed: Testbed) -> None:
    """Real pyverbs finds the played HCA, cannot open its node, and leaves no descriptor behind, try after try."""
    testbed.add_hca(0)
    testbed.allow_verbs()
    library, before = load_pyverbs(), _descriptors()
    for _ in range(_TRIES):
        with pytest.raises(VerbsError, match=r"mlx5_0 cannot be opened \(Failed to open device.*Errno"):
            library.open("mlx5_0")
    assert _descriptors() < before + _TRIES, "the threads of umockdev come and go with a few, not with one a try"


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
