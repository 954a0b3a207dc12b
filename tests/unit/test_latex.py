"""LaTeX: what a reader of the printed page sees, and nothing that only the typesetter needs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.media_type import guess_media_type
from hopsyncd.formats.blocks import Block, count_skipped
from hopsyncd.formats.readers import extract

PAPER = r"""
% A comment
\documentclass[11pt]{article}
\newcommand{\sys}{Nightjar}
\newcommand{\pair}[2]{(#1, #2)}
\newtheorem{thm}{Theorem}
\title{Measuring \sys{}\thanks{Paid by nobody.}}
\author{Ada Lovelace \and Grace Hopper}
\date{7 May 2024}
\begin{document}
\maketitle
\begin{abstract}
We measure \sys. It costs 5\% less --- really.
\end{abstract}
\section{Introduction}\label{sec:intro}
The caf\'e in Malm\"o \cite{smith2020,jones99} has $\alpha \leq 10^{6}$ cells % hidden
and \textbf{bold text}\footnote{A note about bolt~12.}.
See \href{https://example.org/x}{our page}.

\begin{thm}[Lovelace] Every \emph{machine} stops. \end{thm}
\begin{verbatim}
x = {1}  % kept
\end{verbatim}
\input{chapters/two}
\begin{thebibliography}{9}
\bibitem{smith2020} J. Smith, \emph{Stars}, 2020.
\end{thebibliography}
\end{document}
Not shown.
"""


def read(text: str) -> list[Block]:
    return [
        block
        for block in extract(text.encode(), guess_media_type("a.tex"))
        if block.kind != "skipped"
    ]


def texts(text: str) -> list[str]:
    return [block.text for block in read(text) if block.text]


def test_a_paper_is_read_as_it_is_printed() -> None:
    assert [(block.kind, block.text) for block in read(PAPER) if block.text] == [
        ("heading", "Measuring Nightjar"),
        ("heading", "Abstract"),
        ("paragraph", "We measure Nightjar. It costs 5% less — really."),
        ("heading", "Introduction"),
        (
            "paragraph",
            "The café in Malmö [smith2020, jones99] has \u03b1 ≤ 10^6 cells and bold text."
            " See our page.",
        ),
        ("note", "A note about bolt 12."),
        ("paragraph", "Theorem (Lovelace). Every machine stops."),
        ("code", "x = {1}  % kept"),
        ("list_item", "[smith2020] J. Smith, Stars, 2020."),
    ]


def test_title_authors_links_and_lines_are_known() -> None:
    blocks = read(PAPER)
    assert blocks[0].properties == (
        ("author", "Ada Lovelace"),
        ("author", "Grace Hopper"),
        ("date", "7 May 2024"),
    )
    (paragraph,) = [block for block in blocks if block.text.startswith("The café")]
    assert (paragraph.first_line, paragraph.last_line) == (16, 18)
    assert [link.target for _, link in paragraph.links] == ["https://example.org/x"]
    assert count_skipped(extract(PAPER.encode(), "text/x-tex")) == {"included files": 1}


def test_tables_have_their_captions_and_all_rows_of_their_headers() -> None:
    table = r"""\begin{table}
\begin{tabular}{lcc}
\toprule
 & \multicolumn{2}{c}{Accuracy (\%)} \\
\cmidrule(lr){2-3}
Model & Dev & Test \\
\midrule
\multirow{2}{*}{BERT} & 81.2 & 80.1 \\
 & 82.2 & 81.0 \\[2pt]
A \& B & $10^{3}$ & --- \\
\bottomrule
\end{tabular}
\caption{Results}
\end{table}"""
    assert texts(table) == [
        "Results",
        "Model: BERT | Accuracy (%) > Dev: 81.2 | Accuracy (%) > Test: 80.1",
        "Model: BERT | Accuracy (%) > Dev: 82.2 | Accuracy (%) > Test: 81.0",
        "Model: A & B | Accuracy (%) > Dev: 10^3 | Accuracy (%) > Test: —",
    ]


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (r"$E = mc^2$", "E = mc^2"),
        (r"\[ \frac{a+b}{2} \leq \sqrt{x+1} \]", "(a+b)/2 ≤ √(x+1)"),
        (r"$\sum_{i=1}^{n} x_i \in \mathbb{R}$", "∑_(i=1)^n x_i ∈ R"),
        (r"\(\left. f \right|_{x=0} = \sin x\)", "f |_(x=0) = sin x"),
        (r"\begin{align} a &= 1 \\ b &= 2 \label{eq:b} \end{align}", "a = 1; b = 2"),
        (r"$\text{speed} > 5\,\mathrm{km}$ in \SI{3}{\kilo\metre\per\hour}",
         "speed > 5 km in 3 kilometre/hour"),
        ("it costs $5 and more", "it costs $5 and more"),
        (r"at 90$^\circ$C", "at 90°C"),
        (r"$-3\frac{1}{4}x$ and $\frac{d}{dx}f(x)$", "-3 1/4 x and d/dx f(x)"),
    ],
)  # fmt: skip
def test_formulas_are_converted_to_readable_text(formula: str, expected: str) -> None:
    assert texts(formula) == [expected]


def test_items_are_leads_of_the_items_in_them() -> None:
    blocks = read(
        r"\begin{itemize}\item Pack warm clothes. \begin{enumerate}\item Socks\end{enumerate}"
        r"\item[Boat] Sails at noon.\end{itemize}"
    )
    assert [(block.text, block.leads) for block in blocks] == [
        ("Pack warm clothes.", ()),
        ("1. Socks", ("Pack warm clothes.",)),
        ("Boat: Sails at noon.", ()),
    ]


def test_a_chapter_without_a_preamble_and_slides_are_read() -> None:
    assert texts("\\chapter{Two}\nIt goes on.\n\\subsection*{End}\nDone.") == [
        "Two", "It goes on.", "End", "Done."
    ]  # fmt: skip
    slide = r"\begin{document}\begin{frame}{Plan}\begin{itemize}\item Sail\end{itemize}\end{frame}"
    assert texts(slide) == ["Plan", "Sail"]
    slide = "\\begin{frame}\n\\frametitle{Plan}\nSail at noon.\n\\end{frame}"
    assert texts(slide) == ["Plan", "Sail at noon."]
    assert texts(r"\begin{frame}Sail at \emph{noon}.\end{frame}") == ["Sail at noon."]


def test_dashes_and_quotes_are_printed_signs_beside_links_too() -> None:
    assert texts(
        r"``It'' --- see \href{https://a.org/b--c}{p. 1--2} or \url{https://a.org/b--c}"
    ) == ["“It” — see p. 1\u20132 or https://a.org/b--c"]
    assert texts(r"Run \verb|x --y| for $f''$.") == ["Run x --y for f''."]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (r"\section{Fees\footnote{Paid once.}} Text.", ["Fees", "Text.", "Paid once."]),
        (r"\begin{tabular}{ll}a & 9\footnote{In dollars.}\end{tabular}", ["a | 9", "In dollars."]),
        (r"\begin{table}\caption{Fees\footnote{Paid.}}\end{table}", ["Fees", "Paid."]),
        (r"\begin{itemize}\item[Boat\footnote{Big.}] Sails.\end{itemize}",
         ["Boat: Sails.", "Big."]),
        (r"\author{Ann\footnote{In Oslo.} \and Bo} Text.", ["Text.", "In Oslo."]),
    ],
)  # fmt: skip
def test_footnotes_of_headings_tables_captions_and_terms_are_read(
    source: str, expected: list[str]
) -> None:
    assert texts(source) == expected


def test_a_table_of_contents_and_drawings_add_no_text() -> None:
    source = r"\tableofcontents\begin{tikzpicture}\draw (0,0);\end{tikzpicture} Text."
    assert texts(source) == ["Text."]
    assert count_skipped(extract(source.encode(), "text/x-tex")) == {"drawings": 1}


@given(
    st.lists(
        st.sampled_from(
            "{ } $ & [ ] ^ _ % \n \n\n word \\\\ \\item \\hline \\title{a} \\section{b} \\frac{1}"
            " \\begin{itemize} \\end{itemize} \\begin{table} \\end{table} \\caption{c} \\'e"
            " \\begin{tabular}{l} \\end{tabular} \\begin{document} \\begin{equation} \\footnote{d}"
            " \\multirow{2}{*}{e} \\newcommand{\\f}[1]{#1\\f} \\f".split(" ")
        ),
        max_size=30,
    )
)
def test_any_text_gives_blocks_inside_the_file(parts: list[str]) -> None:
    text = "".join(parts)
    last = text.count("\n") + 1
    blocks = read(text)
    assert all(1 <= block.first_line <= block.last_line <= last for block in blocks)
    firsts = [block.first_line for block in blocks if block.kind not in ("heading", "note")]
    assert firsts == sorted(firsts)


def test_headings_tasks_tables_and_code_as_pandoc_writes_them() -> None:
    blocks = read(
        r"""\hypertarget{fees}{%
\section{Fees}\label{fees}}

\begin{itemize}\item[$\boxtimes$] paid\item[Boat] free\end{itemize}
\begin{longtable}[]{@{}ll@{}}\toprule
\begin{minipage}[b]{\linewidth}\raggedright
Course
\end{minipage} & \begin{minipage}[b]{\linewidth}\raggedright
Fee
\end{minipage} \\ \midrule \endhead
Wheel & 420 \\ \bottomrule
\end{longtable}

\begin{Highlighting}[]
\KeywordTok{def}\NormalTok{ fire(cone) }\OperatorTok{{-}\textgreater{}} \NormalTok{\{\}}
\end{Highlighting}
"""
    )
    assert [(block.kind, block.text) for block in blocks] == [
        ("heading", "Fees"),
        ("list_item", "⊠ paid"),
        ("list_item", "Boat: free"),
        ("table", "Course: Wheel | Fee: 420"),
        ("code", "def fire(cone) -> {}"),
    ]


def test_a_booktabs_table_without_a_middle_rule_names_no_columns() -> None:
    rows = r"Founder & Ada Hart \\ Products & Kilns \\ Staff & 12 \\"
    text = rf"\begin{{tabular}}{{ll}}\toprule {rows} \bottomrule\end{{tabular}}"
    assert texts(text) == ["Founder | Ada Hart", "Products | Kilns", "Staff | 12"]
