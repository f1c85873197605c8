"""docs/conformance.md: which plugin keeps which law, as the kit saw it. It must not run anything."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.conformance.laws import LAWS, Verdict

PAGE: Final = Path(__file__).parents[2] / "docs/conformance.md"

Verdicts = Mapping[str, Sequence[Verdict]]
"""By the plugin's name, in the order of the laws."""

HEAD: Final = """# What a device plugin must do so that the kubelet harms nobody

This page is made by `python -m tests.conformance --document`; do not edit it. The kit plays each story on a
machine of text, beside a kubelet that behaves as the real one (1.34) was seen to: it crashes where an id is
missing, kills pods where a plugin comes late, and replays the answers that it keeps. What counts is what the
kubelet's side and the containers see; the plugin is a program of its own, and is never asked. It must offer
each InfiniBand HCA of the machine to one container at a time, under `vke.volcengine.com/infiniband-rdma`, and has
three seconds to follow what changes.

"""

_TAIL: Final = """
The fifth law, that nobody lists the kubelet's pods while it deals devices, is one for the plugin's own calls,
and its harm (one device dealt to two pods) comes by chance.

## What was seen

"""

OWN: Final = """
## Your own plugin

```console
$ .venv/bin/python -m tests.conformance ./my-plugin --sysfs {root}/sys --kubelet-dir {kubelet}
```

`{root}` becomes a folder with the machine's `sys`, `proc` and `dev`, `{kubelet}` one that holds
`device-plugins/kubelet.sock` and `pod-resources`. Device nodes are small text files there, so that no root is
needed; a plugin must hand over their paths, and open none. The exit status is 1 where a law is broken.
"""


def page(verdicts: Verdicts) -> str:
    """The page."""
    plugins = list(verdicts)
    rows = [
        f"| {law.number} | {law.title} | {' | '.join(_cell(verdicts[one][place]) for one in plugins)} |\n"
        for place, law in enumerate(LAWS)
    ]
    head = f"| law | | {' | '.join(plugins)} |\n|---|---|{'---|' * len(plugins)}\n"
    seen = [
        f"- **{plugin}**, law {law.number}: {verdict.seen}\n"
        for plugin in plugins
        for law, verdict in zip(LAWS, verdicts[plugin], strict=True)
    ]
    return f"{HEAD}{head}{''.join(rows)}{_TAIL}{''.join(seen)}{OWN}"


def _cell(verdict: Verdict) -> str:
    return "kept" if verdict.holds else "**broken**"
