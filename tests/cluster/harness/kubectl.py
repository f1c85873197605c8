"""Answers for what a person does to a cluster with kubectl, and for looking at its objects until they fit.

It must not know nodes or services of the harness.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from harness import commands, objects, waiting
from harness.api import HttpsClient
from harness.objects import Stored

Thing = TypeVar("Thing", bound=Stored)
HTTP_OK, HTTP_NOT_FOUND = 200, 404


class Kubectl:
    """kubectl under one identity; ``read`` and ``wait`` ask the API server themselves, which costs less."""

    def __init__(self, kubeconfig: Path, client: HttpsClient) -> None:
        self.kubeconfig = kubeconfig
        self.client = client
        self._env = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(kubeconfig.parent)}

    def __call__(self, *words: str | Path, stdin: str | None = None, timeout_s: float = 60) -> str:
        """What ``kubectl WORDS`` printed; :class:`~harness.commands.CommandError` if it refuses."""
        return commands.run("kubectl", *words, stdin=stdin, env=self._env, timeout_s=timeout_s)

    def apply(self, *manifests: Mapping[str, object] | Path) -> None:
        """Apply objects, or files of them, unchanged."""
        for manifest in manifests:
            if isinstance(manifest, Path):
                self("apply", "-f", manifest)
            else:
                self("apply", "-f", "-", stdin=json.dumps(manifest))

    def get(self, *words: str) -> dict[str, Any]:
        """The JSON of ``kubectl get WORDS``."""
        answer: dict[str, Any] = json.loads(self("get", *words, "-o", "json"))
        return answer

    def execute(self, pod: str, *argv: str, namespace: str = "default", container: str | None = None) -> str:
        """What a program, run in a pod's container, printed."""
        chosen = ("-c", container) if container else ()
        return self("exec", "-n", namespace, pod, *chosen, "--", *argv)

    def logs(self, pod: str, *, namespace: str = "default", container: str | None = None) -> str:
        """What a pod's container printed."""
        chosen = ("-c", container) if container else ()
        return self("logs", "-n", namespace, pod, *chosen)

    def wait_log(self, pod: str, text: str, *, namespace: str = "default", timeout_s: float = 20) -> str:
        """The log of a pod's only container as soon as it holds ``text``."""

        def look() -> str | None:
            log = self.logs(pod, namespace=namespace)
            return log if text in log else None

        return waiting.until_value(look, f"{text!r} in the log of {pod}", timeout_s)

    def read(self, kind: type[Thing], name: str, namespace: str = "default") -> Thing | None:
        """The object as it is now; None if there is none."""
        answer = self.client.get(f"{kind.PATH.format(namespace=namespace)}/{name}")
        if answer.status == HTTP_NOT_FOUND:
            return None
        if answer.status != HTTP_OK:
            raise RuntimeError(f"reading {kind.__name__} {name}: {answer.status} {answer.body.decode()}")
        return msgspec.json.decode(answer.body, type=kind)

    def labelled(self, label: str, namespace: str = "default") -> list[objects.Pod]:
        """The pods that carry a label, written ``KEY=VALUE``, as they are now."""
        answer = self.client.get(f"{objects.Pod.PATH.format(namespace=namespace)}?labelSelector={label}")
        if answer.status != HTTP_OK:
            raise RuntimeError(f"reading pods of {label}: {answer.status} {answer.body.decode()}")
        return msgspec.json.decode(answer.body, type=objects.Pods).items

    def wait(
        self,
        kind: type[Thing],
        name: str,
        fits: Callable[[Thing], bool],
        *,
        namespace: str = "default",
        timeout_s: float = 30,
    ) -> Thing:
        """The object as soon as it fits; a ``TimeoutError`` tells what it was at last, with its events."""

        def look() -> Thing | None:
            thing = self.read(kind, name, namespace)
            return thing if thing is not None and fits(thing) else None

        try:
            return waiting.until_value(look, f"{kind.__name__} {name} to fit", timeout_s)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self._described(kind, name, namespace)}") from None

    def wait_gone(
        self, kind: type[Stored], name: str, *, namespace: str = "default", timeout_s: float = 30
    ) -> None:
        """Return as soon as there is no such object."""
        waiting.until(lambda: self.read(kind, name, namespace) is None, f"{kind.__name__} {name} to go", timeout_s)

    def _described(self, kind: type[Stored], name: str, namespace: str) -> str:
        try:
            return self("describe", kind.__name__.lower(), name, "-n", namespace)
        except commands.CommandError as error:
            return str(error)
