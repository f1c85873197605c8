"""What the tests of both programs share."""

import os

import pytest

from railside_proto.names import AGENT_ENVIRONMENT, EXTENDER_ENVIRONMENT


@pytest.fixture(autouse=True)
def _no_settings_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have set something for a program of their own."""
    for name in os.environ:
        if name.startswith((AGENT_ENVIRONMENT, EXTENDER_ENVIRONMENT)):
            monkeypatch.delenv(name)
