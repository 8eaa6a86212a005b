import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.coordinator.txn.pattern import Pattern
from fencepost.errors import ErrorCode, KafkaError

ATOMS = st.sampled_from(["a", "b", "-", ".", "[ab]", "[^a]", "[a-c-]", r"\w", r"\d", r"\.", "^", "$"])
REPEATS = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{1,}", "*?", "+?"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        st.tuples(inner, REPEATS).map(lambda both: f"(?:{both[0]}){both[1]}"),
    ),
    max_leaves=8,
)


@given(PATTERNS, st.text("abc-.1", max_size=8))
def test_it_agrees_with_python(pattern, text):
    expected = re.compile(pattern, re.ASCII | re.DOTALL).fullmatch(text) is not None
    # Python takes $ for the end of the last line as well; there are no lines here.
    assert Pattern(pattern).matches(text) is expected


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "(a+)+b", "(.*)(.*)(.*)(.*)(.*)(.*)b", "(a?){50}a{50}b"])
def test_no_pattern_takes_long(pattern):
    begun = time.perf_counter()
    assert not Pattern(pattern).matches("a" * 1000)
    assert time.perf_counter() - begun < 5


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "a)", "(?i)a", "(?=a)", "(?P<n>a)", "[", "[a", "[z-a]", "[[:alpha:]]", "*", "+a", "a**", "a{2}{3}",
        "a{3,2}", "a{2000}", r"\1", r"\b", "\\", r"\p{L}", "(a{100}){100}", "(" * 100 + ")" * 100, "a" * 3000,
    ],
)  # fmt: skip
def test_what_is_not_known_or_too_much_is_refused(pattern):
    with pytest.raises(KafkaError) as caught:
        Pattern(pattern)
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@given(st.text("()[]{}*+?|\\^$.a1,-", max_size=20))
def test_nothing_but_a_refusal_comes_of_nonsense(pattern):
    try:
        Pattern(pattern).matches("aa1-a")
    except KafkaError as error:
        assert error.code is ErrorCode.INVALID_REGULAR_EXPRESSION  # noqa: PT017
