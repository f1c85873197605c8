"""``python -m tests.conformance [COMMAND ...]``: tells which laws a device plugin keeps.

COMMAND starts the plugin; ``{root}`` in it is the folder with the machine's sys and dev, ``{kubelet}`` that of the
kubelet. Without one, railside-agent and a naive plugin are looked at; with --document their page is written. The
exit status is 1 where a law is broken by COMMAND or by railside-agent.
"""

import asyncio
import sys
from collections.abc import Sequence

from tests.conformance.document import PAGE, page
from tests.conformance.laws import LAWS, Verdict
from tests.conformance.stage import Plugin
from tests.conformance.subjects import NAIVE, RAILSIDE


async def _judged(plugin: Plugin) -> list[Verdict]:
    print(plugin.name)
    verdicts = []
    for law in LAWS:
        verdict = await law.story(plugin)
        word = "kept  " if verdict.holds else "BROKEN"
        print(f"  {word} law {law.number}: {law.title}: {verdict.seen}", flush=True)
        verdicts.append(verdict)
    return verdicts


async def _judge(plugins: Sequence[Plugin]) -> dict[str, list[Verdict]]:
    return {plugin.name: await _judged(plugin) for plugin in plugins}


def main(arguments: Sequence[str]) -> int:
    """Run the kit; the exit status."""
    if list(arguments[:1]) in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    document = list(arguments) == ["--document"]
    own = (Plugin(name=" ".join(arguments), command=tuple(arguments), shown=True),)
    verdicts = asyncio.run(_judge((RAILSIDE, NAIVE) if document or not arguments else own))
    if document:
        PAGE.write_text(page(verdicts), encoding="utf-8")
    first = next(iter(verdicts.values()))
    return int(not all(verdict.holds for verdict in first))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
