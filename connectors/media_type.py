"""The media type of a file, judged by its name alone, and which names are text by default."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BY_SUFFIX: dict[str, str] = {
    **dict.fromkeys((".md", ".markdown", ".mdown", ".mkd", ".mkdn"), "text/markdown"),
    **dict.fromkeys((".rst", ".rest"), "text/x-rst"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "text/html"),
    **dict.fromkeys((".txt", ".text", ".org", ".adoc", ".asciidoc", ".tex"), "text/plain"),
    **dict.fromkeys((".py", ".pyi"), "text/x-python"),
}

# Data formats (json, csv, xml, yaml, toml, ini, log) are left out on purpose: they are rarely
# prose, often huge, and the usual home of passwords. An `include` pattern adds them.
_SOURCE_SUFFIXES = _words(
    ".c .h .cc .cpp .cxx .hh .hpp .hxx .m .mm .cs .java .kt .kts .scala .groovy .go .rs .swift .zig"
    " .js .mjs .cjs .jsx .ts .mts .cts .tsx .vue .svelte .css .scss .less .php .rb .pl .pm .lua .r"
    " .jl .hs .ml .mli .fs .fsx .ex .exs .erl .clj .cljs .el .lisp .scm .dart .nim .d .pas .f90 .f"
    " .for .asm .s .sh .bash .zsh .fish .ps1 .bat .sql .proto .graphql .tf .cmake .mk .vim .tcl .v"
    " .vhd .sol .cu .nix .awk"
)

_TEXT_NAMES = _words(
    "readme license licence copying notice authors contributors changelog changes history news"
    " todo install maintainers thanks"
)
_SOURCE_NAMES = _words(
    "makefile gnumakefile dockerfile containerfile vagrantfile jenkinsfile rakefile gemfile"
    " procfile justfile brewfile cmakelists.txt"
)


def media_type(name: str) -> str:
    """The MIME type that the last component of `name` suggests; `text/plain` when it says nothing.

    >>> media_type("notes/Plan.MD"), media_type("src/Makefile"), media_type("app.log")
    ('text/markdown', 'text/x-source', 'text/plain')
    """
    return _known(name) or "text/plain"


def is_text_name(name: str) -> bool:
    """Whether a file of this name is indexed by default: a known suffix or a known bare name."""
    return _known(name) is not None


def _known(name: str) -> str | None:
    base = name.rpartition("/")[2].lower()
    if base in _SOURCE_NAMES:
        return "text/x-source"
    if base in _TEXT_NAMES:
        return "text/plain"
    stem, dot, suffix = base.rpartition(".")
    if not stem:
        return None
    suffix = dot + suffix
    return _BY_SUFFIX.get(suffix) or ("text/x-source" if suffix in _SOURCE_SUFFIXES else None)
