"""CSV by its own delimiter, JSON with the values as written, notebooks and calendars."""

import json

import pytest

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.blocks import count_skipped
from hopsyncd.formats.media_types import IPYNB
from hopsyncd.formats.readers import extract


def texts(text: str, kind: str) -> list[str]:
    return [block.text for block in extract(text.encode(), kind) if block.text]


@pytest.mark.parametrize(
    "text",
    [
        "Name;Price, net\nArgo;1,50\nBrage;2,75\n",
        "Name\tPrice, net\nArgo\t1,50\nBrage\t2,75\n",
        "sep=;\nName;Price, net\nArgo;1,50\nBrage;2,75\n",
        'Name,"Price, net"\nArgo,"1,50"\nBrage,"2,75"\n',
    ],
)
def test_the_delimiter_is_the_one_that_makes_even_rows(text: str) -> None:
    assert texts(text, "text/csv") == [
        "Name: Argo | Price, net: 1,50",
        "Name: Brage | Price, net: 2,75",
    ]


def test_a_table_without_names_has_none() -> None:
    assert texts("Argo,3\nBrage,4\n", "text/csv") == ["Argo | 3", "Brage | 4"]
    assert texts("", "text/csv") == []


def test_numbers_of_json_stay_as_they_are_written() -> None:
    text = '{"price": 1.50, "id": 12345678901234567890123, "open": true, "rate": 1e5, "n": null}'
    assert texts(text, "application/json") == [
        "price: 1.50",
        "id: 12345678901234567890123",
        "open: true",
        "rate: 1e5",
    ]


def test_headings_of_old_notebooks_are_read_and_outputs_counted() -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "source": ["Tides"]},
        {"cell_type": "code", "input": "tide()", "outputs": [{"text": "3 m"}]},
        {"cell_type": "raw", "source": "As is."},
    ]
    found = extract(json.dumps({"worksheets": [{"cells": cells}]}).encode(), IPYNB)
    told = [(b.kind, b.level, b.text) for b in found if b.text]
    assert told == [("heading", 2, "Tides"), ("code", 0, "tide()"), ("paragraph", 0, "As is.")]
    assert count_skipped(found) == {"outputs": 1}


@pytest.mark.parametrize(
    "text", ["{}", "[]", "3", "{", '{"cells": [1]}', '{"cells": 1}', '{"cells": [{"source": 1}]}']
)
def test_json_that_is_no_notebook_is_refused(text: str) -> None:
    assert extract(b"", IPYNB) == extract(b'{"cells": []}', IPYNB) == ()
    with pytest.raises(DocumentUnreadable, match="not a Jupyter notebook") as error:
        extract(text.encode(), IPYNB)
    assert "KeyError" not in str(error.value)


def test_a_calendar_file_is_its_events() -> None:
    text = (
        "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Launch\nDTSTART;VALUE=DATE:20260701\n"
        "DURATION:PT1H30M\nSTATUS:CANCELLED\nEND:VEVENT\nBEGIN:VTODO\nSUMMARY:Paint\n"
        "DUE:20260601T080000Z\nEND:VTODO\nEND:VCALENDAR\n"
    )
    assert texts(text, "text/calendar") == [
        "Launch",
        "Status: cancelled",
        "Start: 2026-07-01",
        "Duration: 1 hour 30 minutes",
        "Paint",
        "Due: 2026-06-01 08:00 UTC",
    ]


@pytest.mark.parametrize(("end", "shown"), [("20240515", []), ("20240518", ["End: 2024-05-17"])])
def test_an_event_of_whole_days_ends_on_its_last_day(end: str, shown: list[str]) -> None:
    text = (
        "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Fair\nDTSTART;VALUE=DATE:20240514\n"
        f"DTEND;VALUE=DATE:{end}\nEND:VEVENT\nEND:VCALENDAR\n"
    )
    assert texts(text, "text/calendar") == ["Fair", "Start: 2024-05-14", *shown]


@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        ("FREQ=WEEKLY;BYDAY=MO,WE;COUNT=3", "every week, on Monday and Wednesday, 3 times"),
        ("FREQ=MONTHLY;BYDAY=1MO,-1FR", "every month, on the first Monday and the last Friday"),
        ("FREQ=MONTHLY;BYDAY=TU;BYSETPOS=-2", "every month, on the second to last Tuesday"),
        ("FREQ=MONTHLY;BYDAY=SA,SU;BYSETPOS=1", "every month, on the first of Saturday and Sunday"),
        ("FREQ=MONTHLY;BYMONTHDAY=1,15", "every month, on day 1 and 15"),
        ("FREQ=MONTHLY;BYMONTHDAY=-1", "every month, on the last day"),
        ("FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=15", "every year, on day 15, in March"),
        ("FREQ=YEARLY;BYDAY=22MO,XX;BYMONTH=13", "every year, on the 22nd Monday and XX, in 13"),
    ],
)
def test_a_rule_of_repetition_names_its_days_and_months(rule: str, shown: str) -> None:
    text = f"BEGIN:VEVENT\nSUMMARY:Choir\nRRULE:{rule}\nEND:VEVENT\n"
    assert texts(text, "text/calendar") == ["Choir", f"Repeats: {shown}"]


def test_lines_above_the_names_and_commas_at_the_end_hide_no_column() -> None:
    above = "Report 2024\nMade by a tool\n\nName,Age,City\nAnn,30,Oslo\n"
    assert texts(above, "text/csv")[-1] == "Name: Ann | Age: 30 | City: Oslo"
    assert texts("a,b,\nx,1,\ny,2,\n", "text/csv") == ["a: x | b: 1", "a: y | b: 2"]
    assert texts("Ware;Preis\nStift;1,50\n", "text/csv") == ["Ware: Stift | Preis: 1,50"]


def test_names_of_groups_above_the_names_of_columns_are_no_text_above_the_table() -> None:
    text = "Sales report,,,,\n,In,,Out,\nRegion,Plan,Real,Plan,Real\nNorth,1,2,3,4\nSouth,5,6,7,8\n"
    assert texts(text, "text/csv") == [
        "Sales report",
        "Region: North | In > Plan: 1 | In > Real: 2 | Out > Plan: 3 | Out > Real: 4",
        "Region: South | In > Plan: 5 | In > Real: 6 | Out > Plan: 7 | Out > Real: 8",
    ]


def test_notes_of_several_cells_above_the_names_of_columns_hide_no_names() -> None:
    text = (
        "Notes,,,about\nwritten,in,many,\nName,Job,Age,Born\nAnn,baker,44,1980-01-02\n"
        "Ben,clerk,55,1970-03-04\nEve,cook,66,1960-05-06\n"
    )
    assert texts(text, "text/csv")[:3] == [
        "Notes |  |  | about",
        "written | in | many",
        "Name: Ann | Job: baker | Age: 44 | Born: 1980-01-02",
    ]


def test_a_first_row_of_names_above_texts_and_numbers_is_no_note() -> None:
    text = "Name,Mon,Tue\nAnn,ill,away\nBen,1,2\nEve,3,4\n"
    assert texts(text, "text/csv")[0] == "Name: Ann | Mon: ill | Tue: away"


def test_descriptions_of_google_calendar_are_read_without_tags() -> None:
    text = (
        "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Eye test\n"
        "DESCRIPTION:Bring <b>glasses</b><br>and a card &amp\\; pen\nEND:VEVENT\nEND:VCALENDAR\n"
    )
    assert texts(text, "text/calendar") == ["Eye test", "Bring glasses\nand a card & pen"]
