"""Patterns of ignore files: what they hide is as ever, and none takes for ever."""

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from connectors.ignore import Patterns, make_linear

names = st.lists(
    st.sampled_from(["a", "b", "*", "**", "?", "[ab]", "[!a]", "[]a]", "\\*", "\\a", "{"]),
    min_size=1,
    max_size=5,
).map("".join)
globs = st.tuples(
    st.sampled_from(["", "/", "**/"]),
    st.lists(st.one_of(names, st.just("**")), min_size=1, max_size=5).map("/".join),
    st.sampled_from(["", "/", "/**"]),
).map("".join)
paths = st.lists(st.text("ab*{]", min_size=1, max_size=4), min_size=1, max_size=5).map("/".join)


@given(globs, st.lists(paths, min_size=1, max_size=20))
@example("a/**/b*a/**/b", ["a/bba/b", "a/ba/ba/b", "a/x/ba/y/b/z", "a/b"])
@example("**/a/**/a*b/**/b", ["a/ab/b", "b/a/a/ab/ab/b", "a/ab", "x/a/aab/y/b/z"])
def test_a_linear_pattern_fits_the_same_paths(glob: str, found: list[str]) -> None:
    try:
        pattern = GitIgnoreSpecPattern(glob)
    except (ValueError, re.error):
        return
    if pattern.regex is None:
        return
    rewritten = re.compile(make_linear(pattern.regex.pattern))
    as_in_git = re.compile(pattern.regex.pattern.replace("[^a]", "[^a/]"))
    for path in found:
        one, other = as_in_git.match(path), rewritten.match(path)
        assert (one is None) == (other is None), path
        assert one is None or other is None or one.lastindex == other.lastindex, path


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 20 + "*b", "x/" + "a" * 250),
        ("*[a]?" * 20 + "*b", "a" * 250),
        ("a/**/" * 20 + "b", "a/" * 1000 + "c"),
        ("**/*a*/" * 12 + "b", "aa/" * 1000 + "c"),
    ],
)
def test_matching_any_pattern_takes_bounded_time(pattern: str, path: str) -> None:
    patterns = Patterns([pattern])
    began_s = time.process_time()
    assert patterns.judge(path, False) is None
    assert time.process_time() - began_s < 5
