import string

import pytest

from railside_proto.reasons import _CATALOGUE, Code, Reason, reason


@pytest.mark.parametrize("code", Code)
def test_every_code_tells_what_is_wrong_and_what_to_do(code: Code) -> None:
    """Each code has a sentence and a remedy whose facts all come from the sentence."""
    sentence, remedy = _CATALOGUE[code]
    facts = {name: f"<{name}>" for name in _fields(sentence)}
    expected = Reason(code=code, sentence=sentence.format(**facts), remedy=remedy.format(**facts))
    assert expected == reason(code, **facts)
    assert "" not in {sentence, remedy}


@pytest.mark.parametrize("code", Code)
def test_a_remedy_reads_well_alone_and_behind_a_semicolon(code: Code) -> None:
    """A remedy begins like the middle of a sentence, and says to do nothing where there is nothing to do."""
    _, remedy = _CATALOGUE[code]
    assert remedy.partition(" ")[0].islower()
    assert not remedy.startswith("nothing")
    assert not remedy.endswith(".")


def test_codes_and_catalogue_are_the_same() -> None:
    """The catalogue is closed: no entry without a code."""
    assert set(Code) == set(_CATALOGUE)


@pytest.mark.parametrize("code", Code)
def test_codes_are_fit_for_labels(code: Code) -> None:
    """A code is one CamelCase word, as it stands in metric labels and in Kubernetes events."""
    assert code.value == "".join(word.capitalize() for word in code.name.split("_"))


def test_facts_fill_the_sentence_in() -> None:
    """The sentence and the remedy name the device that they are about."""
    told = reason(Code.UVERBS_NUMBERS_DIFFER, device="mlx5_0", node="uverbs0", found="231:1", expected="231:192")
    expected = "mlx5_0: /dev/infiniband/uverbs0 has numbers 231:1, but the kernel says 231:192"
    assert expected == told.sentence


def test_a_missing_fact_is_a_bug() -> None:
    """A fact that was forgotten raises KeyError and never reaches a person as a hole."""
    with pytest.raises(KeyError, match="device"):
        reason(Code.ETHERNET_LINK)


def _fields(text: str) -> set[str]:
    return {field for _, field, _, _ in string.Formatter().parse(text) if field}
