"""The actions of the page in a real Chromium: what a button does, and who may press it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.e2e.films import FILMS
from tests.fakes.browser import opened


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        for path, text in FILMS.items():
            made.write(path, text)
        (made.base / "more").mkdir()
        (made.base / "more/cork.md").write_text("# Cork\n\nCork has a market.\n")
        made.configure(f'[open]\neditor = "{_editor(made)}"\n' + source("notes", made.notes))
        made.start()
        made.sync()
        made.write("places/bergen.md", FILMS["places/bergen.md"].replace("rain", "snow"))
        made.write("broken.pdf", "%PDF-1.4 broken")
        made.sync()
        yield made


def _editor(place: Place) -> Path:
    """A program that notes what it is asked to open."""
    program = place.base / "editor"
    program.write_text(f'#!/bin/sh\necho "$1" > {place.base}/opened\n')
    program.chmod(0o755)
    return program


@pytest.fixture(scope="module")
def page(place: Place, browser: Browser) -> Iterator[Page]:
    with opened(place, browser, viewport={"width": 1280, "height": 900}) as page:
        yield page


def base(page: Page) -> str:
    return re.sub(r"^(http://[^/]+/[^/]+).*", r"\1", page.url)


def state(place: Place, name: str) -> str:
    sources = {one["name"]: one for one in place.status()["sources"]}
    return str(sources[name]["state"]) if name in sources else ""


def test_a_source_is_paused_and_resumed(page: Page, place: Place) -> None:
    page.goto(base(page) + "/sources")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".done")).to_contain_text("Paused notes")
    assert state(place, "notes") == "paused"
    expect(page.locator("#source-notes .problem")).to_have_text("A user paused the source.")
    expect(page.locator(".notes")).to_have_count(0)  # the card and the header say it
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".done")).to_contain_text("Resumed notes")
    place.until(lambda: state(place, "notes") == "ok")


def test_the_header_of_a_past_version_has_one_row_on_a_phone(page: Page, place: Place) -> None:
    wide = page.viewport_size
    assert wide
    page.set_viewport_size({"width": 320, "height": 640})
    page.goto(base(page) + "/?at=1")
    chips, brand = page.locator(".chips").bounding_box(), page.locator(".brand").bounding_box()
    assert chips and brand
    assert chips["y"] < brand["y"] + brand["height"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.set_viewport_size(wide)


def test_a_folder_is_added_scanned_and_removed_after_a_question(page: Page, place: Place) -> None:
    page.goto(base(page) + "/sources")
    page.get_by_label("Folder, git repository").fill(str(place.base / "more"))
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator(".done")).to_contain_text("Added more")
    place.until(lambda: place.documents("market", filters=["source:more"]) == ["cork.md"])
    expect(page.locator("#state")).to_contain_text("Up to date")
    card = page.locator("#source-more")
    card.get_by_role("button", name="Scan now").click()
    expect(page.locator(".done")).to_contain_text("Scanning more")
    page.locator("#source-more").get_by_role("link", name="Remove…").click()
    assert state(place, "more")
    page.get_by_role("button", name="Remove more").click()
    expect(page.locator(".done")).to_contain_text("Removed more")
    assert not state(place, "more")
    assert 'name = "more"' not in (place.home / "config.toml").read_text()


def test_a_mistyped_folder_is_refused_in_words(page: Page, place: Place) -> None:
    before = (place.home / "config.toml").read_text()
    page.goto(base(page) + "/sources")
    page.get_by_label("Folder, git repository").fill("/nowhere/at/all")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert (place.home / "config.toml").read_text() == before


def test_a_broken_file_is_added_to_ignore_by_its_button(page: Page, place: Place) -> None:
    page.goto(base(page) + "/sources")
    broken = page.locator(".lines li", has_text="broken.pdf")
    broken.get_by_role("button", name="Ignore it").click()
    expect(page.locator(".done")).to_contain_text("Ignoring broken.pdf")
    assert '"/broken.pdf"' in (place.home / "config.toml").read_text()
    place.until(lambda: not place.status()["problems"])


def test_a_version_is_restored_after_a_preview_and_released(page: Page, place: Place) -> None:
    page.goto(base(page) + "/changes/1")
    page.get_by_role("link", name="Restore…").click()
    expect(page.locator(".effects")).to_contain_text(
        "1 document gets its old text: places/bergen.md"
    )
    expect(page.locator("ins", has_text="rain")).to_be_visible()
    assert "snow" in place.query("What does Bergen have?", filters=["path:bergen"])[0]["text"]
    page.get_by_role("button", name="Restore version 1").click()
    expect(page.locator(".done")).to_contain_text("as in version 1")
    assert "rain" in place.query("What does Bergen have?", filters=["path:bergen"])[0]["text"]
    page.goto(base(page) + "/sources")
    page.get_by_role("button", name="Release").click()
    expect(page.locator(".done")).to_contain_text("synced with their files again")
    assert "snow" in place.query("What does Bergen have?", filters=["path:bergen"])[0]["text"]


def test_a_document_is_opened_in_the_editor(page: Page, place: Place) -> None:
    page.goto(base(page) + "/?q=Who+repairs+clocks%3F")
    page.locator(".read", has_text="Lindqvist").first.click()
    page.locator("#preview").get_by_role("button", name="Editor").click()
    expect(page.locator(".done")).to_contain_text("Opened people/lindqvist.md")
    opened = place.base / "opened"
    place.until(opened.exists)
    assert opened.read_text().strip() == str(place.notes / "people/lindqvist.md")


def test_no_action_is_done_for_another_page_or_without_the_token(page: Page, place: Place) -> None:
    page.goto(base(page) + "/sources")
    token = page.locator("input[name=csrf]").first.input_value()
    cookies = {cookie["name"]: cookie["value"] for cookie in page.context.cookies(page.url)}
    origin = re.match("http://[^/]+", page.url)
    assert origin
    for action in ("sync", "accept", "pause", "resume", "add", "remove", "ignore", "open",
                   "restore", "release"):  # fmt: skip
        url = f"{base(page)}/act/{action}"
        form = {"source": "notes", "version": "1", "document": "a.md", "place": "/tmp"}
        same = {"Origin": origin[0]}
        for headers, fields in (
            (same, form),
            (same, form | {"csrf": "1" * 64}),
            ({"Origin": "http://evil.example"}, form | {"csrf": token}),
            ({"Origin": "null"}, form | {"csrf": token}),
            (same | {"Sec-Fetch-Site": "same-site"}, form | {"csrf": token}),
            ({}, form | {"csrf": token}),
        ):
            sent = httpx2.post(url, data=fields, headers=headers, cookies=cookies)
            assert sent.status_code == 403, (action, headers)
        reply = httpx2.get(url, cookies=cookies)
        assert reply.status_code == 405
    assert state(place, "notes") == "ok"


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A temporary folder in which the path of a socket is short enough."""
    with TemporaryDirectory(prefix="hop-", dir="/tmp") as made:
        yield Path(made)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGHUP])
def test_try_indexes_a_folder_offers_questions_and_leaves_nothing(
    ending: signal.Signals, tmp_path: Path, short_folder: Path
) -> None:
    folder = tmp_path / "notes"
    for path, text in FILMS.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    environment = {**os.environ, "TMPDIR": str(short_folder), "PYTHONUNBUFFERED": "1"}
    program = [sys.executable, "-m", "hopsyncd", "try", str(folder), "--no-browser"]
    with subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        lines = [running.stdout.readline().strip() for _ in range(6)]
        assert lines[0].startswith("http://127.0.0.1:")
        assert lines[2].startswith("Indexed 12 documents")
        (home,) = short_folder.glob("hopsyncd-try-*")
        with httpx2.Client() as http:
            assert http.get(lines[0]).status_code == 200
        running.send_signal(ending)
        rest = running.stdout.read()
        assert running.wait(60) == 0
    assert lines[4].startswith("How is ") and " → " in lines[5]
    assert f"hopsyncd init --folder {folder}" in rest
    assert not home.exists()
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.md")) == sorted(
        FILMS
    )
