"""docs/conformance.md: which plugin keeps which law, as the kit saw it. It must not run anything."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.conformance.harms import HARMS, Shown
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

UNPLAYED: Final = {5: "Nobody lists the kubelet's pods while it deals devices"}
"""Laws that the kit cannot play, by their numbers."""

_TAIL: Final = """
The fifth law is one for the plugin's own calls, which the kit does not see. A List lets the kubelet forget the
devices that it is dealing, and the next pod may get them too. The agent's keeping of it is tested beside its own
calls (`tests/unit/agent/test_podresources.py`). The naive plugin reads its ports' states anew for each list, and
so keeps the eighth law; what breaks it on the real kubelet stands in the last column.

The last column has the tests in `tests/cluster` that do the harm to the real kubelet and containerd with a plugin
that breaks the law: `tests/cluster/run tests/cluster/FILE.py` runs one of their files. What comes by chance is
left to it in `proof_harms.py`, which no other run takes in and which tells how often it came.

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
    head = (
        f"| law | | {' | '.join(plugins)} | its harm on the real kubelet |\n|---|---|{'---|' * len(plugins)}---|\n"
    )
    seen = [
        f"- **{plugin}**, law {law.number}: {verdict.seen}\n"
        for plugin in plugins
        for law, verdict in zip(LAWS, verdicts[plugin], strict=True)
    ]
    return f"{HEAD}{head}{''.join(_rows(verdicts))}{_TAIL}{''.join(seen)}{OWN}"


def _rows(verdicts: Verdicts) -> list[str]:
    played = {
        law.number: row(law.number, law.title, *(_cell(seen[place]) for seen in verdicts.values()))
        for place, law in enumerate(LAWS)
    }
    unplayed = {number: row(number, title, *("" for _ in verdicts)) for number, title in UNPLAYED.items()}
    return [line for _, line in sorted({**played, **unplayed}.items())]


def row(number: int, title: str, *cells: str) -> str:
    """One line of the table."""
    return f"| {number} | {title} | {' | '.join(cells)} | {'; '.join(map(_link, HARMS[number]))} |\n"


def _link(shown: Shown) -> str:
    return f"[{shown.sentence}](../tests/cluster/{shown.file})"


def _cell(verdict: Verdict) -> str:
    return "kept" if verdict.holds else "**broken**"
