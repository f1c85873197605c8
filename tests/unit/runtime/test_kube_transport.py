import os
import subprocess
import sys
from pathlib import Path

_LOAD = """
import sys
from railside_runtime import kube_transport
before = set(sys.modules)
library = kube_transport.load()
left = [name for name in sys.modules if name.startswith("kubernetes_asyncio")]
configuration = library.new_configuration()
print(library.light, len(left), hasattr(configuration, "api_key"), issubclass(library.unusable, Exception))
"""

_AFTERWARDS = """
import sys
from railside_runtime import kube_transport
light = kube_transport.load()
import kubernetes_asyncio.client
full = kube_transport.load()
same = sys.modules.get("kubernetes_asyncio.client") is kubernetes_asyncio.client
print(light.light, full.light, same, kubernetes_asyncio.client.CoreV1Api.__name__)
"""

_MISSING = """
from railside_runtime import kube_transport
try:
    kube_transport.load()
except ImportError as error:
    print(error)
"""


def _printed(program: str, *path: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603


def _library(root: Path, **modules: str) -> None:
    """A library of the same name, laid out differently."""
    for name, text in modules.items():
        file = root / "kubernetes_asyncio" / Path(*name.split("__")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for folder in ("", "client", "config"):
        package = root / "kubernetes_asyncio" / folder
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").touch()


def test_the_models_stay_out_and_no_trace_is_left() -> None:
    """The real library's transport is loaded without its models, and what was put in the way is taken out."""
    assert _printed(_LOAD) == "True 0 True True"


def test_others_may_import_the_library_afterwards() -> None:
    """An import of the whole library after ours finds all of it, and from then on it is used as it is."""
    assert _printed(_AFTERWARDS) == "True False True CoreV1Api"


def test_a_library_that_is_laid_out_otherwise_is_imported_in_full(tmp_path: Path) -> None:
    """Where the bare packages lack what a later version takes from them, the plain import does it."""
    _library(
        tmp_path,
        client__configuration="class Configuration:\n    api_key = {}\n",
        client__rest="class RESTClientObject: pass\n",
        client__models="",
        config__config_exception="class ConfigException(Exception): pass\n",
        config__incluster_config="from kubernetes_asyncio.client import Extra\nload_incluster_config = None\n",
        config__kube_config="def load_kube_config(): pass\n",
    )
    everything = "Extra = 1\nimport kubernetes_asyncio.client.models\n"
    (tmp_path / "kubernetes_asyncio/client/__init__.py").write_text(everything)
    told = _printed(_LOAD, tmp_path).split()
    assert (told[0], told[2:]) == ("False", ["True", "True"])
    assert int(told[1]) > 0


def test_a_library_without_such_parts_is_told(tmp_path: Path) -> None:
    """A library that has none of the modules is an ImportError, which names what is missing."""
    _library(tmp_path)
    assert "kubernetes_asyncio.config.incluster_config" in _printed(
        _MISSING, tmp_path
    ) or "client.configuration" in (_printed(_MISSING, tmp_path))
