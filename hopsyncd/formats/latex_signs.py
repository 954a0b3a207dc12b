"""Maps LaTeX commands to characters, and lists the commands whose arguments are not text."""

import re
import unicodedata
from html.entities import html5

# Arguments of these commands are not text; the value is the number of arguments in braces.
SILENT = {
    name: count
    for count, names in (
        (
            1,
            "label vspace hspace vskip hskip includegraphics includepdf bibliographystyle"
            " bibliography sout st xout"
            " addbibresource usepackage documentclass RequirePackage input include subfile import"
            " pagestyle thispagestyle pagenumbering index glossary hypersetup graphicspath color"
            " fontsize selectlanguage cline cmidrule nocite phantom vphantom hphantom stepcounter"
            " refstepcounter geometry sisetup lstset newtheoremstyle theoremstyle urlstyle tag"
            " usetikzlibrary pgfplotsset captionsetup newacronym DeclareMathOperator"
            " linespread markboth markright rowcolor cellcolor columncolor arraystretch thanks",
        ),
        (
            2,
            "setlength addtolength setcounter addtocounter addcontentsline fancyhead rule"
            " newlength",
        ),
        (3, "definecolor newenvironment renewenvironment DeclareRobustCommand newglossaryentry"),
    )
    for name in names.split()
}
SILENT |= dict.fromkeys(("newpage", "clearpage", "centering", "makeatletter"), 0)
# The first argument of these commands is not text; the second is.
SECOND = frozenset(
    "textcolor colorbox raisebox parbox scalebox resizebox adjustbox makebox framebox"
    " foreignlanguage texorpdfstring rotatebox multirow multicolumn hyperlink bookmark".split()
)
CITATIONS = re.compile(r"[A-Za-z]*cite[A-Za-z]*\*?\Z")
REFERENCES = frozenset("ref eqref pageref autoref cref Cref vref nameref hyperref".split())
WORDS = {
    "LaTeX": "LaTeX", "TeX": "TeX", "BibTeX": "BibTeX", "XeLaTeX": "XeLaTeX", "ldots": "…",
    "dots": "…", "textellipsis": "…", "ss": "ß", "o": "ø", "O": "Ø", "l": "ł", "L": "Ł",
    "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "aa": "å", "AA": "Å", "i": "\u0131", "j": "\u0237",
    "dh": "ð", "th": "þ", "quad": " ", "qquad": " ", "newline": "\n", "par": "\n",
    "textbackslash": "\\", "textasciitilde": "~", "textasciicircum": "^", "textbar": "|",
    "textless": "<", "textgreater": ">", "textendash": "\u2013", "textemdash": "—", "S": "§",
    "P": "¶",
    "pounds": "£", "euro": "€", "EUR": "€", "texteuro": "€", "copyright": "©",
    "textregistered": "®",
    "texttrademark": "™", "textdegree": "°", "degree": "°", "textbullet": "•", "textmu": "µ",
    "circ": "∘",
    "infty": "∞", "cdot": "·", "cdots": "…", "vdots": "…", "to": "→", "gets": "←", "neq": "≠",
    "partial": "∂", "emptyset": "∅", "land": "∧", "lor": "\u2228", "lnot": "¬", "neg": "¬",
    "iff": "⟺",
    "implies": "⟹", "mid": "|", "vert": "|", "Vert": "‖", "lVert": "‖", "rVert": "‖", "lvert": "|",
    "rvert": "|", "backslash": "\\", "ell": "\u2113", "hbar": "ℏ", "varepsilon": "ε",
    "epsilon": "ε",
    "langle": "⟨", "rangle": "⟩", "ast": "*", "star": "*", "colon": ":", "lbrace": "{",
    "rbrace": "}", "limits": "", "left": "", "right": "", "big": "", "Big": "", "bigg": "",
    "Bigg": "", "bigl": "", "bigr": "", "Bigl": "", "Bigr": "", "displaystyle": "", "textstyle": "",
    "nonumber": "", "notag": "", "mathrm": "", "relax": "", "noindent": "", "protect": "",
    "leq": "≤", "le": "≤", "geq": "≥", "ge": "≥", "ll": "≪", "gg": "≫", "sim": "\u223c",
    "prime": "\u2032",
}  # fmt: skip
ACCENTS = {
    "'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304",
    ".": "\u0307", "c": "\u0327", "v": "\u030c", "u": "\u0306", "H": "\u030b", "k": "\u0328",
    "r": "\u030a", "b": "\u0331", "d": "\u0323",
}  # fmt: skip
DOTLESS = {"\u0131": "i", "\u0237": "j"}
SPACES = frozenset(",;:! /-")
UNITS = frozenset("SI qty SIrange qtyrange unit si".split())
FUNCTIONS = frozenset(
    "sin cos tan log ln exp lim min max sup inf det dim ker arg gcd Pr arcsin arccos arctan sinh"
    " cosh tanh mod limsup liminf argmin argmax".split()
)


def sign_of(word: str) -> str | None:
    """Return the character for a command in a formula, or None.

    Python's table of HTML entities is used, because most of its names come from TeX.

    >>> sign_of("infty"), sign_of("leq"), sign_of("mycommand")
    ('∞', '≤', None)
    """
    if word in WORDS:
        return WORDS[word]
    return f"{word} " if word in FUNCTIONS else html5.get(f"{word};")


def put_accent(letter: str, accent: str) -> str:
    """Add the accent of a LaTeX command to a letter.

    >>> put_accent("e", "'")
    'é'
    """
    return unicodedata.normalize("NFC", DOTLESS.get(letter, letter) + ACCENTS[accent])
