"""Settings of a program that is nobody's: what a program declares, and what comes of it."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from railside_runtime.settings import KnownSettings, ListForm, Problem, SettingsError


class _Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    tea_cups: Annotated[int, Meta(ge=1, le=9, description="a number from 1 to 9", title="cups")] = 1
    guests: tuple[str, ...] = ()
    cakes: tuple[dict[str, int], ...] = ()


def _cakes_problem(value: object) -> Problem:
    return f"cakes is {value}", "bake some"


def _conflict(settings: _Settings) -> str | None:
    return "too few cups" if len(settings.guests) > settings.tea_cups else None


_CAKES = ListForm(example="[{plum: 1}]", allowed="a list of cakes", problem=_cakes_problem)
_KNOWN = KnownSettings(_Settings, "TEA_", lists={"cakes": _CAKES}, conflict=_conflict)


def test_a_setting_is_spelt_by_one_rule() -> None:
    """The name of a field gives key, flag and variable; a list of more than words is shown by its example."""
    assert (_KNOWN.flag("teaCups"), _KNOWN.variable("teaCups")) == ("--tea-cups", "TEA_TEA_CUPS")
    assert [_KNOWN.value_words(key) for key in _KNOWN.descriptions()] == [
        ("1-9", "1"),
        ("NAME,...", ""),
        ("LIST", "[{plum: 1}]"),
    ]


@pytest.mark.parametrize(
    ("environment", "flags", "expected"),
    [
        ({"TEA_TEA_CUPS": "2"}, {}, _Settings(tea_cups=2)),
        ({"TEA_TEA_CUPS": "2"}, {"teaCups": "3"}, _Settings(tea_cups=3)),
        ({"TEA_GUESTS": "a, ,"}, {}, _Settings(guests=("a",))),
        ({"TEA_CAKES": "[{plum: 2}]"}, {}, _Settings(cakes=({"plum": 2},))),
        ({"TEA_PORT": "tcp://10.0.0.1:1", "TEA_POT_SERVICE_HOST": "10.0.0.1", "TEAPOT": "x"}, {}, _Settings()),
    ],
)
def test_text_becomes_values(
    environment: Mapping[str, str], flags: Mapping[str, str], expected: _Settings
) -> None:
    """Words are parted by commas, a list of more is YAML, and what Kubernetes says of Services is passed over."""
    assert _KNOWN.resolve({}, environment, flags).settings == expected


@pytest.mark.parametrize(
    ("file", "environment", "sentence"),
    [
        ({"teaCups": 0}, {}, "teaCups is 0 (from the file); it must be a number from 1 to 9"),
        ({"cakes": 3}, {}, "cakes is 3 (from the file); bake some"),
        ({}, {"TEA_CAKES": "["}, "cakes is '[' (from TEA_CAKES); it must be a list of cakes"),
        (
            {},
            {"TEA_CUPS": "2"},
            "the environment sets 'TEA_CUPS', which is no setting; did you mean TEA_TEA_CUPS?",
        ),
        ({"guests": ["a", "b"]}, {}, "too few cups"),
    ],
)
def test_what_cannot_be_taken_is_one_sentence(
    file: dict[str, Any], environment: Mapping[str, str], sentence: str
) -> None:
    """Limits, forms of their own, unknown names, and values that do not go together."""
    with pytest.raises(SettingsError) as error:
        _KNOWN.resolve(file, environment, {})
    assert str(error.value) == sentence
