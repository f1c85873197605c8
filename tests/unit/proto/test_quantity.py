import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railside_proto.quantity import BILLION, MOST, parse, round_up, whole

_POWERS = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_UNITS = {suffix: Fraction(10) ** power for suffix, power in _POWERS.items()} | {
    f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", start=1)
}
_EXPONENTS = {
    f"{letter}{sign}{power}": Fraction(10) ** (-power if sign == "-" else power)
    for letter in "eE"
    for sign in ("", "+", "-")
    for power in range(25)
}
_SUFFIXES = st.sampled_from(sorted(_UNITS | _EXPONENTS))
_DIGITS = st.text("0123456789", max_size=25)
_NUMBERS = st.one_of(
    st.builds("{}.{}".format, _DIGITS, _DIGITS), st.builds("{}.".format, _DIGITS), _DIGITS
).filter(lambda text: text.strip("."))


def _exact(number: str, suffix: str) -> Fraction:
    """What a number with a suffix is, before it is rounded or bounded."""
    return Fraction(Decimal(number)) * (_UNITS | _EXPONENTS)[suffix]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", "1"),
        ("8", "8"),
        ("+8", "8"),
        ("-8", "-8"),
        ("-0", "0"),
        ("007", "7"),
        ("1.", "1"),
        ("1.k", "1000"),
        (".5", "0.5"),
        ("+.5Gi", "536870912"),
        ("1.50", "1.5"),
        ("1n", "0.000000001"),
        ("1u", "0.000001"),
        ("1500m", "1.5"),
        ("2k", "2000"),
        ("2M", "2000000"),
        ("2G", "2000000000"),
        ("2T", "2000000000000"),
        ("2P", "2000000000000000"),
        ("2E", "2000000000000000000"),
        ("2Ki", "2048"),
        ("2Mi", "2097152"),
        ("2Gi", "2147483648"),
        ("2Ti", "2199023255552"),
        ("2Pi", "2251799813685248"),
        ("2Ei", "2305843009213693952"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1e+3", "1000"),
        ("1E-2", "0.01"),
        ("1.5e0", "1.5"),
        ("1E", "1000000000000000000"),
    ],
)
def test_what_a_quantity_stands_for(text: str, value: str) -> None:
    """Signs, points, suffixes and exponents are read as the API server reads them."""
    assert parse(text) == Fraction(value) * BILLION


@pytest.mark.parametrize(
    "text",
    [
        *("", "+", "-", ".", "-.", "k", "Ki", "e3", ".m"),
        *(" 1", "1 ", "1\n", "1 k", "\t1"),
        *("1e", "1e+", "1e3.5", "1e3k", "1ke3", "1ee3", "1e99999999999999999999"),
        *("1K", "1ki", "1g", "1i", "1mi", "1ni", "1kk", "1Kim", "1B"),
        *("1.1.1", "1,5", "1_000", "--1", "+-1", "0x1", "one", "inf", "nan", "1e-", "\u0661", "\uff11"),
    ],
)
def test_what_is_no_quantity(text: str) -> None:
    """A text without a digit, with spaces, or with anything else around its number is none."""
    assert parse(text) is None
    assert whole(text) is None


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (1, "1"),
        (-3, "-3"),
        (1.5, "1.5"),
        (1000.0, "1000"),
        (1e-7, "0.0000001"),
        (1e-12, "0.000000001"),
        (1e22, MOST),
        (2**64, MOST),
        (-(10**400), -MOST),
    ],
)
def test_numbers_of_json_are_quantities(number: float, value: str | int) -> None:
    """A number means what its digits would mean, however large it is."""
    assert parse(number) == Fraction(value) * BILLION


@pytest.mark.parametrize("number", [float("inf"), float("nan"), True])
def test_what_json_has_no_number_for_is_no_quantity(number: float) -> None:
    """Infinity, nothing at all and a truth are none."""
    assert parse(number) is None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("0.1n", 1),
        ("-0.1n", -1),
        ("1.0000000001", BILLION + 1),
        ("0.00000000000000000001Ei", 11529216),
        ("1e-300", 1),
        ("1e-999999999", 1),
        ("0e-999999999", 0),
    ],
)
def test_nothing_is_finer_than_a_billionth(text: str, parts: int) -> None:
    """What is finer is rounded up, away from zero: who asks for something gets something."""
    assert parse(text) == parts


@pytest.mark.parametrize(
    "text", ["9223372036854775807", "9223372036854775808", "8Ei", "10E", "1e19", "1e999999999"]
)
def test_nothing_is_beyond_what_a_node_can_count(text: str) -> None:
    """What is larger than 64 bits hold is as large as they hold, at once, and so is its negative."""
    assert whole(text) == MOST
    assert whole(f"-{text}") == -MOST


def test_a_long_exponent_is_cut_as_in_go() -> None:
    """An exponent keeps its lower 32 bits, as the kubelet counts by these alone."""
    assert [whole(text) for text in ("1e4294967296", "1e4294967299", "5e-4294967296")] == [1, 1000, 5]


def test_a_text_that_goes_on_is_no_quantity() -> None:
    """Texts beyond what anybody means are refused unread, so that none takes long."""
    assert parse("0" * 999 + "1") == BILLION
    assert parse("0" * 1000 + "1") is None


@pytest.mark.parametrize(
    ("text", "count"),
    [("0", 0), ("1", 1), ("1.0", 1), ("1001m", 2), ("1n", 1), ("-1n", -1), ("-1500m", -2), ("1.5Ki", 1536)],
)
def test_whole_numbers_are_rounded_up(text: str, count: int) -> None:
    """A part of a device is a device."""
    assert whole(text) == count


@given(number=_NUMBERS, sign=st.sampled_from(["", "+", "-"]), suffix=_SUFFIXES)
def test_every_spelling_has_its_value(number: str, sign: str, suffix: str) -> None:
    """A number times its suffix is what it stands for, rounded up to a billionth and bounded."""
    size = min(math.ceil(_exact(number, suffix) * BILLION), MOST * BILLION)
    assert parse(f"{sign}{number}{suffix}") == (-size if sign == "-" else size)


@given(count=st.integers(0, 10**6), zeros=st.integers(0, 6))
def test_one_value_has_many_spellings(count: int, zeros: int) -> None:
    """The same value is the same in thousands, in thousandths, with zeros, with exponents, and as a number."""
    plain = parse(str(count))
    padding = "0" * zeros
    spellings = [f"{padding}{count}", f"{count}.{padding}", f"{count}000m", f"{count}{padding}e-{zeros}"]
    spellings += [f"{Decimal(count).scaleb(-3)}k", f"{count}e0", f"+{count}E+0", f"{count * 1000}m"]
    assert {parse(one) for one in spellings} == {plain} == {parse(count), parse(float(count))}
    assert parse(f"{count}Mi") == parse(f"{count * 1024}Ki") == parse(str(count * 1024**2))


@given(numbers=st.tuples(_NUMBERS, _NUMBERS), suffix=_SUFFIXES)
def test_more_is_never_less(numbers: tuple[str, str], suffix: str) -> None:
    """With the same suffix the larger number stands for no less."""
    less, more = sorted(numbers, key=Decimal)
    assert (parse(f"{less}{suffix}") or 0) <= (parse(f"{more}{suffix}") or 0)


@given(number=_NUMBERS, suffix=_SUFFIXES)
def test_a_whole_number_is_never_too_small(number: str, suffix: str) -> None:
    """Rounding up gives no less than was asked for, and less than one more, where it can be counted."""
    exact = _exact(number, suffix)
    count = whole(f"{number}{suffix}") or 0
    assert count == MOST if exact > MOST else exact <= count < exact + 1


@given(text=st.text("0123456789.+-eEinumkMGTP "))
def test_any_text_has_an_answer(text: str) -> None:
    """No text raises, and what has a value has its negative."""
    value = parse(text)
    if value is not None and text[0] not in "+-":
        assert parse(f"-{text}") == -value


@given(parts=st.integers(), unit=st.integers(1, BILLION))
def test_rounding_up_goes_away_from_zero(parts: int, unit: int) -> None:
    """The units hold the parts, and one fewer would not."""
    units = round_up(parts, unit)
    assert (units > 0) is (parts > 0)
    assert abs(units) * unit >= abs(parts) > (abs(units) - 1) * unit
