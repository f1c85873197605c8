"""Loads what we use of kubernetes_asyncio: credentials, TLS and the HTTP client, without its generated models.

The packages of the library import every model and API there is (36 MiB and 0.4 s, against 2 MiB and 0.1 s for what
is used here), so for the moment of the import bare packages stand in their place. It must not be imported beside
another import of the library in another thread, and nothing but this module may import the library. It blocks.
"""

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol

import aiohttp
import msgspec

LIBRARY: Final = "kubernetes_asyncio"
_PACKAGES: Final = ("client", "config")


class Configuration(Protocol):
    """Where the API server is, and how to speak to it."""

    host: str
    api_key: dict[str, str]
    cert_file: str | None
    refresh_api_key_hook: Any


class RestClient(Protocol):
    """The library's HTTP client; made on the event loop."""

    async def request(  # noqa: D102 -- the library's
        self,
        method: str,
        url: str,
        *,
        query_params: list[tuple[str, str]],
        headers: dict[str, str],
        body: object,
        _preload_content: bool,
        _request_timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse: ...

    async def close(self) -> None: ...  # noqa: D102 -- the library's


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the library that are used. ``light`` tells whether its models stayed out."""

    new_configuration: Any
    new_client: Any
    load_in_cluster: Any
    load_kubeconfig: Any
    unusable: type[Exception]
    """What the two loaders raise where there are no usable credentials."""
    light: bool


def load() -> Library:
    """The parts, loaded without the models; where the library is laid out otherwise, with all that it has.

    Raises ImportError where the library is missing, or has no such parts at all.
    """
    if LIBRARY in sys.modules:
        return _parts()
    try:
        with _bare_packages():
            return _parts()
    except (ImportError, AttributeError):
        return _parts()


def _parts() -> Library:
    return Library(
        new_configuration=_module("client.configuration").Configuration,
        new_client=_module("client.rest").RESTClientObject,
        load_in_cluster=_module("config.incluster_config").load_incluster_config,
        load_kubeconfig=_module("config.kube_config").load_kube_config,
        unusable=_module("config.config_exception").ConfigException,
        light=f"{LIBRARY}.client.models" not in sys.modules,
    )


def _module(name: str) -> Any:  # noqa: ANN401 -- the library's modules have no types worth the name
    return importlib.import_module(f"{LIBRARY}.{name}")


@contextlib.contextmanager
def _bare_packages() -> Iterator[None]:
    """Have bare packages in the library's place; afterwards no trace is left of them, nor of what they held."""
    spec = importlib.util.find_spec(LIBRARY)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"there is no package {LIBRARY}")
    root = Path(spec.submodule_search_locations[0])
    try:
        for name, folder in ((LIBRARY, root), *((f"{LIBRARY}.{one}", root / one) for one in _PACKAGES)):
            bare = ModuleType(name)
            bare.__path__ = [str(folder)]
            sys.modules[name] = bare
        _name_the_classes()
        yield
    finally:
        for name in [name for name in sys.modules if f"{name}.".startswith(f"{LIBRARY}.")]:
            del sys.modules[name]


def _name_the_classes() -> None:
    """The loaders take these two from the package ``client``; of ApiClient they need no more than the name."""
    client: Any = sys.modules[f"{LIBRARY}.client"]
    client.Configuration = _module("client.configuration").Configuration
    client.ApiClient = object
