"""``railside why``: asks the API server, and prints the answer. It must not compute one."""

import asyncio

import msgspec
from rich.console import Console

from railside_cli.complaint import complain
from railside_cli.exit_status import UNREACHABLE
from railside_cli.why.page import page, status
from railside_cli.why.sight import NoSuchPodError, look
from railside_extender.explanation import Explanation
from railside_runtime.kube import KubeApi
from railside_runtime.kube_error import KubeError


def why(pod: str, namespace: str, kubeconfig: str, console: Console, *, as_json: bool) -> int:
    """Print why ``pod`` is where it is; the exit status."""
    try:
        found = asyncio.run(_found(pod, namespace, kubeconfig))
    except KubeError as error:
        complain(error.message)
        return UNREACHABLE
    except NoSuchPodError as error:
        complain(str(error))
        return UNREACHABLE
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        console.print(page(found), crop=False)
    return status(found)


async def _found(pod: str, namespace: str, kubeconfig: str) -> Explanation:
    api = KubeApi(kubeconfig, agent="railside")
    try:
        return await look(api, namespace, pod)
    finally:
        await api.close()
