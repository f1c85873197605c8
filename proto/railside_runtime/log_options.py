"""The words that set how a program logs. Pure, so that settings can use them; it must not log."""

from typing import Literal

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "json", "console"]
