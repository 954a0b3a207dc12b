"""Find sentences and names that are hard to read, in docs, docstrings, comments and messages.

python scripts/prose.py                   # fails if a file has more findings than its baseline
python scripts/prose.py --list [FILE...]  # print every finding
python scripts/prose.py --update          # lower the baseline; refused if the total would rise
python scripts/prose.py --subject TEXT    # check one commit subject, or --subject-file FILE

Without options it also checks the subject of the newest commit. The baseline is
scripts/prose_baseline.json: the number of findings that each file may still have.
"""

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BASELINE = ROOT / "scripts/prose_baseline.json"
PYTHON = ("hopsyncd", "store", "connectors", "scripts", "benchmarks")
OURSELVES = "scripts/prose.py"  # it quotes what it looks for
MAX_WORDS = 40
MAX_SUBJECT = 80

_START = r"(?:^|(?<=[.!?;:] ))"
PATTERNS: tuple[tuple[str, str], ...] = (
    (r"\b(?:so many|as many as|so much as|at most as)\b", "give the number or its name"),
    (r"\b(?:none|nobody|nothing) but\b", "say `only`"),
    (r"\b(?:that|those) of\b", "repeat the noun"),
    (rf"{_START}(?:One|Those|Such|Some|Whoever|Whatever) (?:that|which|who|whose|is|are|of)\b",
     "name the thing"),
    (rf"{_START}What (?!if\b)[a-z]+ [^?.]*(?:\.|$)", "begin with the noun, not with `What`"),
    (r"\b(?:of|from|by|with|than|for|and|is|in) what (?:is|are|was|were|has|had|it|they|comes"
     r"|came|stands|follows|goes|went)\b", "name the thing"),
    (rf"{_START}Of (?:a|an|the|what|which|whom|these|those|such|all|it)\b", "subject first"),
    (rf"{_START}(?:By|To|From|At|In|With) (?:what|whom|these|those)\b", "subject first"),
    (r"\b(?:is|are|was|were|be|being|been|gets?) told\b", "say who reports or receives what"),
    (r"\b(?:tells?|telling) (?:of|what|whether|that|apart)\b", "say `reports`, `says`, `knows`"),
    (r"\b(?:politely|amid|anew|afresh|heeds?|heeded|tongues?|nought|whereof|thereof|thence|hence"
     r"|lest|aught|unheeded|stead|therein|wherein|asunder|aforesaid)\b", "use the usual word"),
    (r"\b(?:standby|footprints?|asides?)\b", "use `follower`, `dependencies`, `extra sentences`"),
    (r"\b(?:giv|mak|gave|made)(?:e|es|ing)? way\b", "say `yield` or `throttle`"),
    (r"\bin (?:their|its) stead\b", "say `instead`"),
    (r"\bkep?t?(?:ep|eps)? (?:\w+ ){0,6}true while\b", "say `current`"),
    (r"\b(?:the like|its like|and its like|and the likes?)\b", "name them"),
    (r"\b(?:before|after|for|to) whom\b", "subject first"),
    (r"\b(?:no|not|nothing|never) (?:\w+ ){0,3}is (?:\w+ ){0,3}(?:either|neither)\b",
     "one negation"),
    (r"\bthan (?:there )?is (?:to be )?(?:had|needed)\b", "give the number"),
    (r"\bmay be (?:had|asked)\b", "say who can do what"),
)  # fmt: skip
_COMPILED = tuple(
    (re.compile(pattern, re.NOFLAG if pattern.startswith(_START) else re.IGNORECASE), advice)
    for pattern, advice in PATTERNS
)

_IRREGULAR = frozenset(
    "told made said found shown known given taken held kept sent written drawn left gone"
    " understood begun chosen brought sought caught bound met lost meant seen done".split()
)
_NO_PARTICIPLES = frozenset(
    "embed feed seed need proceed exceed speed red bed shed read put".split()
)
_NO_SUBJECTS = frozenset(
    "what whoever whatever the a an no of one that those nothing some it its such this by"
    " which where".split()
)


class Finding(NamedTuple):
    file: str
    line: int
    text: str
    advice: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text!r}: {self.advice}"


def findings_in(file: str, text: str) -> list[Finding]:
    """All findings in a file, by its name below the repository."""
    if file.endswith(".py"):
        found = [*_in_passages(file, _python_prose(text)), *_named(file, text)]
    elif file.endswith(".toml"):
        found = [*_in_passages(file, _toml_comments(text))]
    else:
        found = [*_in_passages(file, _markdown_prose(text))]
    return sorted(found, key=lambda finding: finding.line)


def findings_of_subject(subject: str) -> list[Finding]:
    """Findings in the subject line of a commit."""
    found = [*_in_passages("commit", [(1, subject)])]
    if subject.split(" ", maxsplit=1)[0].lower() in _NO_SUBJECTS:
        found.append(Finding("commit", 1, subject, "begin with a verb in the imperative"))
    if ";" in subject or len(subject) > MAX_SUBJECT:
        advice = f"one change, without `;`, in at most {MAX_SUBJECT} characters"
        found.append(Finding("commit", 1, subject, advice))
    return found


def _in_passages(file: str, passages: Sequence[tuple[int, str]]) -> Iterator[Finding]:
    for line, passage in passages:
        for pattern, advice in _COMPILED:
            for match in pattern.finditer(passage):
                yield Finding(file, line, match[0][:60], advice)
        for sentence in re.split(r"(?<=[.!?:;])\s+|\s\|\s", passage):
            words = len(sentence.split())
            if words > MAX_WORDS:
                start = " ".join(sentence.split()[:6])
                yield Finding(file, line, f"{start} ...", f"{words} words in one sentence")


def _markdown_prose(text: str) -> list[tuple[int, str]]:
    """(line, paragraph without code) of a Markdown file; headings are left out."""
    text = re.sub(r"^(```|~~~).*?^\1[ \t]*$", _only_newlines, text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", _only_newlines, text, flags=re.DOTALL)
    return [
        (number, _without_code(line))
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.startswith(("#", "|--", "|:-", "---"))
    ]


def _only_newlines(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def _without_code(text: str) -> str:
    text = re.sub(r"`[^`]*`", "X", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"^\s*(?:[-*] |\d+\. |\| )|\*\*", "", text)


def _python_prose(text: str) -> list[tuple[int, str]]:
    """(line, paragraph) of docstrings, comments and the messages in strings."""
    tree = ast.parse(text)
    passages: list[tuple[int, str]] = []
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = set[int]()
    data = _data_strings(tree)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            docstrings.add(id(first.value))  # type: ignore[attr-defined]
            passages += _paragraphs(first.lineno, ast.get_docstring(node) or "")
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_message = len(node.value.split()) > 3 and not re.search(
                r"[<{\\]|SELECT|INSERT", node.value
            )
            if id(node) not in docstrings | data and is_message:
                passages += _paragraphs(node.lineno, node.value)
    return passages + _comments(text)


def _data_strings(tree: ast.Module) -> set[int]:
    """The `id()` of strings that are not prose: word lists, question templates and prompts."""
    found = set[int]()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="split")):
                found.add(id(node.func.value))  # type: ignore[attr-defined]
            case ast.Call(func=ast.Name(id="_split_words")):
                found.update(map(id, node.args))
            case ast.Assign(targets=[ast.Name(id="_SYSTEM")]):
                found.update(map(id, ast.walk(node.value)))
            case ast.JoinedStr(values=[ast.Constant(value="What is said of "), *_]):
                found.add(id(node.values[0]))
    return found


def _paragraphs(line: int, text: str) -> Iterator[tuple[int, str]]:
    for paragraph in re.split(r"\n\s*\n", text):
        if ">>>" not in paragraph and "├──" not in paragraph:
            yield line, _without_code(" ".join(paragraph.split()))
        line += paragraph.count("\n") + 2


def _comments(text: str) -> list[tuple[int, str]]:
    """The (line, text) of comments; consecutive lines are one passage."""
    found: list[tuple[int, str]] = []
    last = -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            words = token.string.lstrip("#! ").strip()
            if token.start[0] == last + 1 and found:
                found[-1] = (found[-1][0], f"{found[-1][1]} {words}")
            else:
                found.append((token.start[0], words))
            last = token.start[0]
    return [(line, _without_code(words)) for line, words in found]


def _toml_comments(text: str) -> list[tuple[int, str]]:
    lines = enumerate(text.splitlines(), 1)
    found = [(number, line.lstrip("# ")) for number, line in lines if line.startswith("#")]
    return [(number, _without_code(line)) for number, line in found if " = " not in line]


def _named(file: str, text: str) -> Iterator[Finding]:
    """Functions whose whole name is a past participle, unless they are properties or return a
    bool."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        word = node.name.strip("_")
        is_participle = word in _IRREGULAR or (word.endswith("ed") and word not in _NO_PARTICIPLES)
        answers = isinstance(node.returns, ast.Name) and node.returns.id == "bool"
        decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
        if is_participle and "_" not in word and not answers and not decorators & {
            "property", "cached_property", "override",
        }:  # fmt: skip
            yield Finding(file, node.lineno, f"def {node.name}", "name a function by a verb")


def files() -> list[str]:
    """All files that are checked, by their names below the repository."""
    found = [path for room in PYTHON for path in (ROOT / room).rglob("*.py")]
    found += [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), ROOT / "config.toml"]
    return sorted(
        str(path.relative_to(ROOT)) for path in found if str(path.relative_to(ROOT)) != OURSELVES
    )


def check(counts: dict[str, int], baseline: dict[str, int]) -> list[str]:
    """The files that have more findings than they may."""
    return [file for file, count in counts.items() if count > baseline.get(file, 0)]


def main() -> int:
    options = sys.argv[1:]
    if options[:1] in (["--subject"], ["--subject-file"]):
        given = options[1] if options[0] == "--subject" else Path(options[1]).read_text("utf-8")
        return _report(findings_of_subject(given.splitlines()[0]))
    found = {file: findings_in(file, (ROOT / file).read_text("utf-8")) for file in files()}
    if options[:1] == ["--list"]:
        wanted = options[1:] or list(found)
        _report([one for file in wanted for one in found.get(file, [])])
        return 0
    baseline: dict[str, int] = json.loads(BASELINE.read_text("utf-8")) if BASELINE.exists() else {}
    counts = {file: len(one) for file, one in found.items() if one}
    if options == ["--update"]:
        return _update(counts, baseline)
    failed = check(counts, baseline)
    _report([one for file in failed for one in found[file]])
    for file in failed:
        print(f"{file}: {counts[file]} findings, and {baseline.get(file, 0)} are allowed")
    return _report(findings_of_subject(_newest_subject())) or bool(failed)


def _update(counts: dict[str, int], baseline: dict[str, int]) -> int:
    if baseline and sum(counts.values()) > sum(baseline.values()):
        print(
            f"There are {sum(counts.values())} findings, and {sum(baseline.values())} are allowed"
        )
        return 1
    BASELINE.write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n", "utf-8")
    return 0


def _report(found: Sequence[Finding]) -> int:
    for one in found:
        print(one)
    return int(bool(found))


def _newest_subject() -> str:
    """The subject of the newest commit; empty outside of a repository, or for a merge."""
    git = ["git", "log", "-1", "--no-merges", "--format=%s"]
    return subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
