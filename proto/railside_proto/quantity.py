"""Kubernetes' quantities: what a text such as ``1500m``, ``2Gi`` or ``1e3`` stands for, to the last digit.

It answers for the grammar, the rounding and the bounds of apimachinery's ``resource.Quantity`` (1.34). It must not
know what is asked for, nor print a quantity.
"""

import re
from functools import lru_cache
from typing import Final

BILLION: Final = 10**9
"""How many of the parts that :func:`parse` counts make one: nothing finer than a billionth can be asked for."""

MOST: Final = 2**63 - 1
"""No quantity stands for more, nor for less than its negative, by the documentation of the type. Beyond it Go's
``Value()`` overflows, most often to 0: who counts devices takes such a quantity for nonsense."""

_LONGEST: Final = 1000
"""A text that goes on is refused unread, where the API server would take it: nobody means one."""

_TEXT: Final = re.compile(
    r"(?P<sign>[+-]?)"
    r"(?=\.?[0-9])(?P<digits>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+))?"
)
"""``1E`` is a suffix and ``1E3`` an exponent. A digit there must be, though the API server reads some texts
without one, such as ``.`` and ``k``, as 0."""

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

_CERTAIN: Final = 40
"""A number but 0 is beyond MOST with that many zeros behind it."""


def parse(text: str | float) -> int | None:
    """How many billionths ``text`` stands for, rounded up away from zero; None where it is no quantity.

    The rule is ParseQuantity's, with the bounds that its documentation has. A number is one of JSON. Spaces are
    refused: the API server takes them off before it parses.
    """
    spelt = text if isinstance(text, str) else _spelt(text)
    return _parsed(spelt) if len(spelt) <= _LONGEST else None


def whole(text: str | float) -> int | None:
    """What ``text`` stands for, rounded up away from zero to a whole number, as Quantity.Value() does."""
    parts = parse(text)
    return None if parts is None else round_up(parts, BILLION)


def round_up(parts: int, unit: int) -> int:
    """How many ``unit`` hold ``parts``, away from zero (ScaledValue, for a quantity that is its caller's)."""
    return -(-parts // unit) if parts > 0 else parts // unit


def _spelt(number: float) -> str:
    bounded = max(-MOST, min(number, MOST)) if isinstance(number, int) else number
    return repr(bounded)


@lru_cache(maxsize=2048)
def _parsed(text: str) -> int | None:
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    scale = _scale(found["suffix"], found["exponent"])
    if scale is None:
        return None
    fraction = found["fraction"] or ""
    digits = int(found["digits"] + fraction) << _BINARY.get(found["suffix"], 0)
    size = min(_shifted(digits, scale - len(fraction) + 9), MOST * BILLION)
    return -size if found["sign"] == "-" else size


def _scale(suffix: str | None, exponent: str | None) -> int | None:
    """The power of ten that is meant; None for an exponent that 64 bits do not hold.

    One that 32 bits do not hold loses its upper ones, as in Go, where ``1e4294967296`` is 1.
    """
    if exponent is None:
        return _DECIMAL.get(suffix or "", 0)
    power = int(exponent)
    return (power + 2**31) % 2**32 - 2**31 if -(2**63) <= power < 2**63 else None


def _shifted(digits: int, places: int) -> int:
    """``digits`` times ten to ``places``, rounded up; never much longer than what is kept of it."""
    if places >= 0:
        return digits * int(10 ** min(places, _CERTAIN))
    unit: int = 10 ** min(-places, _LONGEST + _CERTAIN)
    return round_up(digits, unit)
