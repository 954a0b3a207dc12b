"""Guesses the media type of a file from its name, and decides which names are documents
by default."""


def _split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BY_SUFFIX: dict[str, str] = {
    **dict.fromkeys((".md", ".markdown", ".mdown", ".mkd", ".mkdn"), "text/markdown"),
    **dict.fromkeys((".rst", ".rest"), "text/x-rst"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "text/html"),
    **dict.fromkeys((".adoc", ".asciidoc"), "text/asciidoc"),
    **dict.fromkeys((".txt", ".text"), "text/plain"),
    ".org": "text/org",
    **dict.fromkeys((".tex", ".latex"), "text/x-tex"),
    ".bib": "text/x-bibtex",
    **dict.fromkeys((".srt", ".vtt"), "text/vtt"),
    **dict.fromkeys((".py", ".pyi"), "text/x-python"),
}

CANVAS = "application/x-canvas+json"
MBOX = "application/mbox"
MAIL = "message/rfc822"
_OFFICE = "application/vnd.openxmlformats-officedocument."
_DOCUMENTS: dict[str, str] = {
    ".pdf": "application/pdf",
    **dict.fromkeys((".docx", ".docm", ".dotx"), f"{_OFFICE}wordprocessingml.document"),
    **dict.fromkeys((".pptx", ".pptm", ".ppsx"), f"{_OFFICE}presentationml.presentation"),
    **dict.fromkeys((".xlsx", ".xlsm", ".xltx"), f"{_OFFICE}spreadsheetml.sheet"),
    ".xls": "application/vnd.ms-excel",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".odp": "application/vnd.oasis.opendocument.presentation",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".rtf": "application/rtf",
    ".epub": "application/epub+zip",
    ".fb2": "application/x-fictionbook+xml",
    **dict.fromkeys((".eml", ".mht", ".mhtml"), MAIL),
    ".mbox": MBOX,
    ".msg": "application/vnd.ms-outlook",
    ".ipynb": "application/x-ipynb+json",
    ".canvas": CANVAS,
    ".enex": "application/enex+xml",
    ".jex": "application/x-joplin-export",
    ".opml": "text/x-opml",
}

# A file with one of these suffixes is read only if its content is in another, readable format.
_OLD_DOCUMENTS: dict[str, str] = {
    ".doc": "application/msword",
    ".ppt": "application/vnd.ms-powerpoint",
}

_IMAGES: dict[str, str] = {
    ".png": "image/png",
    **dict.fromkeys((".jpg", ".jpeg"), "image/jpeg"),
    **dict.fromkeys((".tif", ".tiff"), "image/tiff"),
}

_MOST_SUFFIX_CHARACTERS = 20
_TABLES: dict[str, str] = dict.fromkeys((".csv", ".tsv"), "text/csv")

# Other data formats (these and xml, yaml, toml, ini, log) are deliberately in no list of names:
# they are rarely prose, often huge, and often contain passwords. An `include` pattern adds them.
_DATA: dict[str, str] = {
    ".ics": "text/calendar",
    ".vcf": "text/vcard",
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "application/json"),
}
_SOURCE_SUFFIXES = _split_words(
    ".c .h .cc .cpp .cxx .hh .hpp .hxx .m .mm .cs .java .kt .kts .scala .groovy .go .rs .swift .zig"
    " .ts .mts .cts .tsx .vue .svelte .php .rb .pl .pm .lua .r"
    " .jl .hs .ml .mli .fs .fsx .ex .exs .erl .clj .cljs .el .lisp .scm .dart .nim .d .pas .f90 .f"
    " .for .asm .s .sh .bash .zsh .fish .ps1 .bat .sql .proto .graphql .tf .cmake .mk .vim .tcl .v"
    " .vhd .sol .cu .nix .awk"
)

# Files next to notes and web pages that only define their appearance.
_SCRIPT_SUFFIXES = _split_words(".js .mjs .cjs .jsx .css .scss .less")

_TEXT_NAMES = _split_words(
    "readme license licence copying notice authors contributors changelog changes history news"
    " todo install maintainers thanks"
)
_SOURCE_NAMES = _split_words(
    "makefile gnumakefile dockerfile containerfile vagrantfile jenkinsfile rakefile gemfile"
    " procfile justfile brewfile cmakelists.txt"
)


def guess_media_type(name: str) -> str:
    """Return the MIME type that the last component of a path suggests. The default is `text/plain`.

    >>> names = "notes/Plan.MD", "src/Makefile", "app.log"
    >>> tuple(guess_media_type(name) for name in names)
    ('text/markdown', 'text/x-source', 'text/plain')
    """
    suffix = get_suffix(name)
    if suffix in _SCRIPT_SUFFIXES:
        return "text/x-source"
    return (
        _find_known_type(name)
        or (_DOCUMENTS | _OLD_DOCUMENTS | _IMAGES | _TABLES | _DATA).get(suffix)
        or "text/plain"
    )


def is_text_name(name: str) -> bool:
    """Whether the name suggests text for people: it has a known suffix, or is a known name without
    a suffix."""
    return _find_known_type(name) is not None


def is_script_name(name: str) -> bool:
    """Whether the name suggests a style sheet or a script of a web page."""
    return get_suffix(name) in _SCRIPT_SUFFIXES


def is_document_name(name: str) -> bool:
    """Whether the name suggests a PDF, an office document, a book, mail or a notebook."""
    return get_suffix(name) in _DOCUMENTS


def is_table_name(name: str) -> bool:
    """Whether the name suggests a table in a text file, such as CSV or TSV."""
    return get_suffix(name) in _TABLES


def is_image_name(name: str) -> bool:
    """Whether the name suggests a picture in which text can be recognized."""
    return get_suffix(name) in _IMAGES


def _find_known_type(name: str) -> str | None:
    base = name.rpartition("/")[2].lower()
    if base in _SOURCE_NAMES:
        return "text/x-source"
    if base in _TEXT_NAMES:
        return "text/plain"
    suffix = get_suffix(base)
    return _BY_SUFFIX.get(suffix) or ("text/x-source" if suffix in _SOURCE_SUFFIXES else None)


def name_kind(name: str) -> str:
    """Return the suffix under which a skipped file is counted: at most 20 characters, or "no
    suffix"."""
    return get_suffix(name)[:_MOST_SUFFIX_CHARACTERS] or "no suffix"


def get_suffix(name: str) -> str:
    """Return the last dot of a name and the text after it, in lower case. Returns "" if the name
    begins with that dot."""
    stem, dot, suffix = name.rpartition("/")[2].lower().rpartition(".")
    return dot + suffix if stem else ""
