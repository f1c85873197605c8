"""The lines of a manifest: words, places and ``key=value`` facts, checked against a grammar of shapes.

It answers for the sentence a person reads when a line is wrong. It must not know what any word means.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

_KEY: Final = re.compile(r"([a-z_]+)=(.*)", re.DOTALL)
_ESCAPES: Final = {"\\n": "\n", "\\t": "\t"}


class ManifestError(ValueError):
    """A manifest says something impossible; one sentence: file, line, what is wrong, what is allowed.

    Raised by ``parse_manifest``, ``read_manifest`` and ``write_tree``; who reads it corrects the line.
    """


class Shape(msgspec.Struct, frozen=True):
    """What a line with one first word may hold; ``raw`` lines take every further word as it stands."""

    places: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    raw: bool = False

    @property
    def sentence(self) -> str:
        """The shape as a person would type it."""
        facts = [f"{fact}=..." for fact in self.required] + [f"[{fact}=...]" for fact in self.optional]
        return " ".join((*self.places, *facts))


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line that fits its shape. Asking for a fact its shape does not name is a bug."""

    origin: str
    number: int
    word: str
    places: tuple[str, ...]
    facts: dict[str, str]

    def error(self, what: str) -> ManifestError:
        """The error of this line."""
        return ManifestError(f"{self.origin}:{self.number}: {what}")

    def text(self, fact: str, default: str = "") -> str:
        """A fact as it stands."""
        return self.facts.get(fact, default)

    def integer(self, fact: str, default: int = 0) -> int:
        """A fact that is a number, decimal or with ``0x``."""
        return self.as_integer(fact, self.facts.get(fact, str(default)))

    def as_integer(self, what: str, value: str) -> int:
        """``value`` as a number; ``what`` names it in the error."""
        try:
            return int(value, 0)
        except ValueError:
            raise self.error(f"{what} is {value!r}; allowed is a number such as 7, -1 or 0x1a") from None

    def matching(self, what: str, value: str, pattern: str, example: str) -> str:
        """``value`` if all of it matches ``pattern``; the error shows ``example``."""
        if re.fullmatch(pattern, value) is None:
            raise self.error(f"{what} is {value!r}; allowed is a form such as {example}")
        return value

    def one_of(self, what: str, value: str, allowed: Mapping[str, T]) -> T:
        """What ``value`` stands for; the error lists all that is allowed."""
        if value not in allowed:
            raise self.error(f"{what} is {value!r}; allowed are {', '.join(allowed)}")
        return allowed[value]


def read_lines(text: str, origin: str, grammar: Mapping[str, Shape]) -> Iterator[Line]:
    """The lines of ``text`` but empty ones and comments. Raises ManifestError at the first bad one."""
    for number, raw in enumerate(text.splitlines(), start=1):
        if words := _words(raw, f"{origin}:{number}"):
            yield _line(words, origin, number, grammar)


def once(lines: Iterable[Line], what: str, fact: Callable[[Line], str]) -> None:
    """Raises ManifestError at the first line whose ``fact``, if not empty, an earlier line has."""
    seen: set[str] = set()
    for line in lines:
        if (value := fact(line)) in seen:
            raise line.error(f"a second {what} {value}; allowed is one of each")
        seen.update({value} - {""})


def unescaped(text: str) -> str:
    r"""``text`` with ``\n`` and ``\t`` made into the characters they mean."""
    return re.sub(r"\\[nt]", lambda found: _ESCAPES[found.group()], text)


def _words(raw: str, where: str) -> list[str]:
    try:
        return shlex.split(raw, comments=True)
    except ValueError as error:
        raise ManifestError(f"{where}: {error}; allowed are words and paired quotes") from None


def _line(words: list[str], origin: str, number: int, grammar: Mapping[str, Shape]) -> Line:
    word, *rest = words
    line = Line(origin=origin, number=number, word=word, places=(), facts={})
    shape = line.one_of("the first word", word, grammar)
    places = rest if shape.raw else [each for each in rest if _KEY.fullmatch(each) is None]
    facts = [] if shape.raw else [found.groups() for each in rest if (found := _KEY.fullmatch(each))]
    if wrong := _misfit(shape, len(places), [key for key, _ in facts]):
        raise line.error(f"{wrong}; allowed is: {word} {shape.sentence}")
    return msgspec.structs.replace(line, places=tuple(places), facts={str(k): str(v) for k, v in facts})


def _misfit(shape: Shape, places: int, keys: list[str]) -> str | None:
    if places != len(shape.places):
        return f"{places} words without = where {len(shape.places)} belong"
    if twice := [key for key in keys if keys.count(key) > 1]:
        return f"{twice[0]}= is given twice"
    if unknown := [key for key in keys if key not in {*shape.required, *shape.optional}]:
        return f"{unknown[0]}= is not known here"
    if missing := [key for key in shape.required if key not in keys]:
        return f"{missing[0]}= is missing"
    return None
