"""Whole words are found where a regular expression of the standard library finds them."""

import re

from hypothesis import given
from hypothesis import strategies as st

from hopsyncd.retrieve.results import find_whole_words

TEXTS = st.text(
    st.sampled_from("aAbBkKsSi_1 .-\n\u00e9\u00df\u03a3\u0130\u0131\u212a\u017f"), max_size=24
)
NAMES = st.text(st.sampled_from("aAbBKsi_1 .-\u00e9"), min_size=1, max_size=4)


@given(TEXTS, NAMES)
def test_whole_words_are_those_of_a_pattern(text: str, wanted: str) -> None:
    found = re.search(rf"\b{re.escape(wanted)}\b", text, re.IGNORECASE)
    assert find_whole_words(text, wanted) == (found[0] if found else None)
