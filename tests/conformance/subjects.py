"""The plugins that the kit knows by name. It must not check them."""

import sys
from pathlib import Path
from typing import Final

from tests.conformance.stage import Plugin

_HERE: Final = Path(__file__).parent

RAILSIDE: Final = Plugin(
    name="railside-agent", command=(sys.executable, str(_HERE / "our_agent.py"), "{root}", "{kubelet}")
)
SILENT: Final = Plugin(name="a silent plugin", command=("sleep", "600"), patience_seconds=0.5)
NAIVE: Final = Plugin(
    name="a naive plugin", command=(sys.executable, str(_HERE / "naive_plugin.py"), "{root}", "{kubelet}")
)
