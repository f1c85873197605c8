"""The extender put together, at an API server and asked over HTTP."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.unit.builders import LogLines
from tests.unit.extender.nodes import pod_json, record
from tests.unit.extender.served_nodes import put_node
from tests.unit.kube_server import FakeApiServer
from tests.unit.running import free_port

from railside_extender.app import Extender
from railside_extender.server import AddressError
from railside_extender.settings import Settings


class Asking:
    """A scheduler, and a kubelet that probes."""

    def __init__(self, kubeconfig: str) -> None:
        self.settings = Settings(kubeconfig=kubeconfig, listen_port=free_port(), probe_port=free_port())

    async def ready(self) -> str:
        """What /readyz says; empty while nothing answers."""
        url = f"http://127.0.0.1:{self.settings.probe_port}/readyz"
        try:
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                return await answer.text()
        except aiohttp.ClientConnectionError:
            return ""

    async def filter(self, *names: str, gpus: int, hcas: int) -> Any:  # noqa: ANN401 -- JSON
        url = f"http://127.0.0.1:{self.settings.listen_port}/filter"
        sent = {"Pod": pod_json(gpus=gpus, hcas=hcas), "NodeNames": names}
        async with aiohttp.ClientSession() as session, session.post(url, json=sent) as answer:
            return json.loads(await answer.read())


async def test_what_the_api_server_shows_decides(server: FakeApiServer, written: LogLines, tmp_path: Path) -> None:
    """Ready when nodes, records and pods were read, it knows aligned room from room that only adds up."""
    put_node(server, "whole", record(hcas=(4, 0), gpus=(4, 0)))
    put_node(server, "torn", record(hcas=(2, 2), gpus=(2, 2)))
    asking = Asking(server.kubeconfig(tmp_path))
    extender = asyncio.create_task(Extender(asking.settings, written.log).run())
    async with asyncio.timeout(10):
        while await asking.ready() != "ok\n":
            await asyncio.wait([extender], timeout=0.01)
        found = await asking.filter("whole", "torn", gpus=4, hcas=4)
    extender.cancel()
    await asyncio.wait([extender])
    assert (found["NodeNames"], list(found["FailedNodes"])) == (["whole"], ["torn"])


async def test_a_taken_port_ends_it_with_a_sentence(
    server: FakeApiServer, written: LogLines, tmp_path: Path
) -> None:
    """Whoever cannot be asked by the scheduler is of no use, and says which settings give another address."""
    asking = Asking(server.kubeconfig(tmp_path))
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", asking.settings.listen_port)
    async with taken, asyncio.timeout(10):
        with pytest.raises(ExceptionGroup) as ended:
            await Extender(asking.settings, written.log).run()
    (why,) = ended.value.exceptions
    assert (type(why), str(why).endswith("set another listenHost or listenPort")) == (AddressError, True)
