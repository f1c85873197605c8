"""What a setting's type allows, and how a value of it is spelt, in the words of errors and of the help.

It must not know any setting.
"""

import difflib
import reprlib
from collections.abc import Collection
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from msgspec import Meta

_UNIONS: Final = (Union, UnionType)

_SHORT: Final = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxother = 120


def title(field_type: object) -> str:
    """What a setting means; empty where its type does not say."""
    return next((meta.title for meta in _metas(field_type) if meta.title), "")


def allowed(field_type: object) -> str:
    """What its value must be."""
    plain = _plain(field_type)
    if plain is bool:
        return "true or false"
    described = next((meta.description for meta in _metas(field_type) if meta.description), None)
    if described:
        return described
    return f"one of {', '.join(get_args(plain))}" if get_origin(plain) is Literal else "text that is not empty"


def kind(field_type: object) -> str:
    """What stands for its value in the help: its choices, its limits, or a word for what it is."""
    plain = _plain(field_type)
    if plain is bool:
        return "true|false"
    if get_origin(plain) is Literal:
        return "|".join(get_args(plain))
    if get_origin(plain) is tuple:
        return "NAME,..." if get_args(plain)[0] is str else "LIST"
    limits = next(((one.ge, one.le) for one in _metas(field_type) if one.ge is not None), None)
    return "{:g}-{:g}".format(*limits) if limits else "TEXT"


def spelt(value: object) -> str:
    """A value as a flag gives it."""
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case tuple():
            return ", ".join(map(str, value))
        case _:
            return str(value)


def shown(value: object) -> str:
    """What somebody wrote, cut short: YAML's aliases make a page of text mean more than fits into memory."""
    return _SHORT.repr(value)


def nearest(name: object, known: Collection[str]) -> str:
    """What somebody may have meant by ``name``, which is none of ``known``."""
    close = difflib.get_close_matches(str(name), known, n=1)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"


def _metas(field_type: object) -> list[Meta]:
    """Limits of a setting's type, innermost first."""
    several = get_args(field_type) if get_origin(field_type) in _UNIONS else (field_type,)
    return [meta for one in several for meta in getattr(one, "__metadata__", ()) if isinstance(meta, Meta)]


def _plain(field_type: object) -> Any:  # noqa: ANN401 -- a type, or a form of one
    """The type without its limits, and without None beside it."""
    if get_origin(field_type) in _UNIONS or hasattr(field_type, "__metadata__"):
        return _plain(get_args(field_type)[0])
    return field_type
