"""Asking and reading on the page in a real Chromium, by mouse and screen reader."""

import os
import re

from playwright.sync_api import Browser, Page, expect

from tests.e2e.daemon import Place
from tests.e2e.film_page import (
    ASKED,
    MOVED,
    QUESTION,
    Shown,
    wait_until,
)


def test_a_typed_question_is_answered_with_evidence_and_without_a_reload(opened: Page) -> None:
    opened.evaluate("window.same = true")
    opened.locator("#q").press_sequentially(QUESTION, delay=2)
    expect(opened.locator(".results")).to_contain_text("The Bronze Door")
    expect(opened.locator(".card").first).to_be_visible()
    expect(opened.locator("#told")).to_contain_text("documents")
    expect(opened).to_have_url(re.compile(r"q=Where\+did\+Mira"))
    assert opened.evaluate("window.same") is True


def test_enter_does_not_repeat_a_search_that_was_typed(opened: Page) -> None:
    searches: list[str] = []
    opened.on("request", lambda request: searches.append(request.url))
    opened.locator("#q").fill("Where did Lord Byron die?")
    expect(opened.locator(".hit").first).to_be_visible()
    opened.locator("#q").press("Enter")
    opened.locator("#q").press("Enter")  # whoever asks once more gets a new answer
    wait_until(
        opened,
        "performance.getEntriesByType('resource').filter((one) => one.name.includes('/results'))"
        ".length === 2",
    )
    assert len([url for url in searches if "/results" in url]) == 2


def test_a_time_in_a_question_is_offered_as_a_filter(opened: Page) -> None:
    opened.locator("#q").fill("Who repairs clocks in Bergen since March 2020?")
    opened.get_by_role("link", name="Only documents that changed in that period").click()
    expect(opened.locator(".chip.on")).to_contain_text("2020-03-01")


def test_back_leads_to_the_search_before_and_then_to_the_first_screen(opened: Page) -> None:
    for question in ("Where did Lord Byron die?", "Who repairs clocks in Bergen?"):
        opened.locator("#q").fill(question[:9])
        expect(opened.locator(".results")).to_be_visible()
        opened.locator("#q").fill(question)
        opened.locator("#q").press("Enter")
        expect(opened.locator("#found h1")).to_have_text(question)
        wait_until(opened, "history.state === null")
    opened.locator(".read").first.click()
    opened.wait_for_url("**open=*")
    opened.go_back()
    expect(opened.locator("#q")).to_have_value("Where did Lord Byron die?")
    expect(opened.locator("#found h1")).to_have_text("Where did Lord Byron die?")
    opened.go_back()
    expect(opened.locator(".welcome")).to_be_visible()


def test_the_cards_of_an_answer_are_joined_by_the_name_they_share(
    opened: Page, view: Shown
) -> None:
    opened.goto(view.base + ASKED)
    cards = opened.locator(".card")
    expect(cards.first.locator(".file")).to_have_text("bronze-door.md")
    expect(opened.locator(".joint .name").first).to_have_text("Mira Kaltenbrunn")
    expect(cards.nth(1).locator(".file")).to_have_text("kaltenbrunn.md")
    expect(cards.first.locator("time")).to_be_visible()
    expect(cards.first.locator("mark").first).to_be_visible()


def test_results_are_grouped_by_document_with_the_words_of_the_question_marked(
    opened: Page, view: Shown
) -> None:
    opened.goto(view.base + ASKED)
    names = opened.locator(".group .doc").all_inner_texts()
    assert len(names) == len(set(names)) > 2
    expect(opened.locator(".group .snippet mark").first).to_be_visible()


def test_a_card_opens_its_passage_marked_in_its_document(opened: Page, view: Shown) -> None:
    opened.goto(view.base + ASKED)
    opened.locator(".card .file").nth(1).click()
    expect(opened.locator("#preview .marked")).to_contain_text("Mira Kaltenbrunn grew up")
    expect(opened).to_have_url(re.compile("open="))
    opened.reload()
    expect(opened.locator("#preview .marked")).to_contain_text("Mira Kaltenbrunn grew up")
    opened.get_by_role("link", name="Close the preview").click()
    expect(opened).not_to_have_url(re.compile("open="))


def test_a_wide_window_previews_the_first_card_by_itself(opened: Page, view: Shown) -> None:
    opened.set_viewport_size({"width": 1280, "height": 800})
    opened.goto(view.base + ASKED)
    expect(opened.locator("#preview .marked")).to_contain_text("The Bronze Door is a film")
    expect(opened).not_to_have_url(re.compile("open="))


def test_the_preview_shows_what_is_related_and_why(opened: Page, view: Shown) -> None:
    opened.goto(view.base + ASKED)
    opened.locator(".card .file").first.click()
    opened.locator("#preview").get_by_role("link", name="Related").click()
    first = opened.locator(".related li", has_text="Mira Kaltenbrunn").first
    expect(first.locator(".reason")).to_contain_text("mentions Mira Kaltenbrunn")


def test_a_citation_is_copied_as_markdown_and_a_link_with_its_version(
    opened: Page, view: Shown
) -> None:
    view.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened.goto(view.base + ASKED)
    opened.locator(".card").nth(1).get_by_role("button", name="Copy").click()
    expect(opened.locator("#toast")).to_have_text("Citation copied")
    copied = opened.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("> Mira Kaltenbrunn grew up")
    assert "`notes/people/kaltenbrunn.md`" in copied and "(version " in copied
    opened.locator(".card .file").nth(1).click()
    opened.locator("#preview").get_by_role("button", name="Link").click()
    expect(opened.locator("#toast")).to_have_text("Link copied")
    opened.goto(opened.evaluate("navigator.clipboard.readText()"))
    expect(opened.locator(".marked")).to_contain_text("harbour of Vasterholm")


def test_the_chosen_version_applies_to_every_view(opened: Page, view: Shown) -> None:
    opened.goto(view.base + ASKED)
    expect(opened.locator("#found")).to_contain_text("Vasterholm")
    opened.locator("#versions summary").click()
    opened.locator("#versions").get_by_label("Version, tag or time").fill("1")
    opened.locator("#versions").get_by_role("button", name="Show").click()
    expect(opened.locator("#found")).to_contain_text("village of Ostrava Vale")
    expect(opened.locator(".past")).to_contain_text("version 1")
    opened.locator("#q").fill("Who paints?")
    opened.locator("#q").press("Enter")
    expect(opened).to_have_url(re.compile("at=1"))
    opened.get_by_role("link", name="Changes").click()
    expect(opened.locator(".past")).to_contain_text("version 1")
    opened.get_by_role("link", name="Back to now").click()
    expect(opened.locator(".past")).to_have_count(0)


def test_facets_narrow_the_search_and_are_kept_in_the_address(opened: Page, view: Shown) -> None:
    opened.goto(view.base + ASKED)
    folder = opened.get_by_role("region", name="Folder")
    expect(folder.locator("li", has_text="films/")).to_contain_text("8")
    folder.get_by_role("link", name="people/").click()
    expect(opened.locator(".results")).not_to_contain_text("films/")
    expect(opened).to_have_url(re.compile("f=path%3Apeople"))
    expect(opened.locator(".active")).to_contain_text("2 documents")
    opened.reload()
    expect(opened.locator(".results")).not_to_contain_text("films/")
    opened.get_by_role("link", name="Remove the filter Folder: people/").click()
    expect(opened.locator(".results")).to_contain_text("films/")


def test_the_histogram_narrows_to_a_month(opened: Page, view: Shown, films: Place) -> None:
    old = films.write("people/old.md", "# Old Knud\n\nOld Knud grew up in Bergen too.\n")
    os.utime(old, (1_600_000_000, 1_600_000_000))
    films.sync("notes")
    opened.goto(view.base + ASKED)
    bars = opened.locator(".histogram a")
    expect(bars).to_have_count(2)
    expect(bars.first).to_have_attribute("aria-label", "2020: 1 document")
    bars.first.click()
    expect(opened.locator(".group")).to_have_count(1)
    expect(opened.locator(".results")).to_contain_text("Old Knud")
    opened.get_by_role("link", name="Any time").click()
    expect(opened.locator(".results")).to_contain_text("The Bronze Door")
    old.unlink()
    films.sync("notes")


def test_a_markdown_file_is_read_as_it_was_written(opened: Page, view: Shown, films: Place) -> None:
    films.write(
        "table.md",
        "# Ferries\n\n- [x] Buy tickets\n\n| port | ferry |\n|---|---|\n| Cork | Gyda |\n\n"
        "```sh\nferry --to cork\n```\n\n[bad](javascript:alert(1)) ![far](http://x.org/a.png) "
        "<script>window.hacked=1</script> [[Tove Lindqvist|Tove]]\n",
    )
    films.sync("notes")
    opened.goto(view.base + "/?q=Which+ferry+leaves+the+port+of+Cork%3F&f=path:table.md")
    opened.locator(".read").first.click()
    document = opened.locator("#preview .document")
    expect(document.locator("td").first).to_have_text("Cork")
    expect(document.locator("pre code")).to_have_text("ferry --to cork\n")
    expect(document.locator("#marked")).to_have_count(1)
    expect(document).to_contain_text("<script>window.hacked=1</script> Tove")
    assert document.locator("a, img, script").count() == 0
    assert opened.evaluate("window.hacked") is None
    (films.notes / "table.md").unlink()
    films.sync("notes")


def test_the_way_to_a_result_is_explained_in_words(opened: Page, view: Shown) -> None:
    opened.goto(view.base + ASKED + "&at=1")
    opened.get_by_text("How it was found").click()
    reason = opened.locator(".how-body > .reasons li").first
    expect(reason).to_contain_text("The Bronze Door")
    expect(reason).to_contain_text("Mira Kaltenbrunn")
    assert "%" not in opened.locator(".how-body").inner_text()


def test_an_open_answer_follows_an_edit_with_the_changed_words_marked(
    opened: Page, view: Shown, films: Place
) -> None:
    opened.goto(view.base + ASKED)
    expect(opened.locator(".card", has_text="harbour of Vasterholm")).to_be_visible()
    opened.locator("#q").focus()
    opened.wait_for_timeout(500)  # the stream of events begins
    films.write("people/kaltenbrunn.md", MOVED.replace("harbour", "suburb"))
    fresh = opened.locator(".card.fresh")
    expect(fresh.locator("ins")).to_have_text("suburb")
    expect(fresh.locator("del")).to_have_text("harbour")
    expect(fresh.locator(".just-changed")).to_have_text(re.compile(r"changed \d+ s ago"))
    expect(opened.locator(".live")).to_have_text(
        re.compile(r"Updated: changed \d+ s ago in kaltenbrunn\.md")
    )
    expect(opened.locator("#told")).to_contain_text("kaltenbrunn.md changed")
    expect(opened.locator("#q")).to_be_focused()
    films.write("people/kaltenbrunn.md", MOVED)
    expect(opened.locator(".card.fresh ins")).to_have_text("harbour")
    expect(opened.locator(".card.fresh del")).to_have_text("suburb")


def test_an_answer_of_the_past_stays_when_a_file_changes(
    opened: Page, view: Shown, films: Place
) -> None:
    opened.goto(view.base + ASKED + "&at=2")
    before = opened.locator("#found").inner_text()
    assert "harbour" in before
    opened.wait_for_timeout(500)
    films.write("people/kaltenbrunn.md", MOVED.replace("harbour", "suburb"))
    films.sync("notes")
    opened.wait_for_timeout(1000)
    assert opened.locator("#found").inner_text() == before
    films.write("people/kaltenbrunn.md", MOVED)
    films.sync("notes")


def test_the_history_of_a_document_shows_its_changed_sentences(opened: Page, view: Shown) -> None:
    opened.goto(view.base + ASKED)
    opened.locator(".card .file").nth(1).click()
    opened.locator("#preview").get_by_role("link", name="History").click()
    expect(opened.locator(".history > li").last).to_contain_text("Added")
    moved = opened.locator(".history > li", has_text="village").first
    expect(moved.locator("ins").first).to_contain_text("harbour")
    expect(moved.locator("del").first).to_contain_text("village")


def test_an_unknown_version_is_reported_in_words(opened: Page, view: Shown) -> None:
    opened.goto(view.base + ASKED + "&at=nowhere")
    expect(opened.get_by_role("alert")).to_contain_text("nowhere")


def test_search_and_reading_work_without_scripts(view: Shown, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    context.add_cookies(view.context.cookies(view.base))  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(view.base + "/")
    page.locator("#q").fill(QUESTION)
    page.locator("#q").press("Enter")
    expect(page.locator(".group").first).to_contain_text("The Bronze Door")
    page.locator(".read").first.click()
    expect(page.locator("#preview .marked")).to_be_visible()
    page.locator("#preview").get_by_role("link", name="Related").click()
    expect(page.locator(".related")).to_be_visible()
    page.get_by_role("link", name="Close the preview").click()
    expect(page.locator("#preview .marked")).to_have_count(0)
    expect(page.locator("[data-copy]").first).to_be_hidden()
    context.close()


def test_questions_asked_before_are_offered_and_stay_in_the_browser(
    opened: Page, view: Shown
) -> None:
    opened.goto(view.base + "/")
    opened.locator("#q").fill("Who repairs clocks?")
    opened.locator("#q").press("Enter")
    expect(opened.locator(".results")).to_be_visible()
    opened.goto(view.base + "/")
    expect(opened.locator("#recent-questions")).to_contain_text("Who repairs clocks?")


def test_a_new_version_keeps_the_example_questions(opened: Page, view: Shown, films: Place) -> None:
    expect(opened.locator(".examples li").first).to_be_visible()
    asked = sum(url.endswith("/examples") for url in view.requests)
    opened.wait_for_timeout(500)  # the stream of events begins
    added = films.write("people/new.md", "# New\n\nA page that is new.\n")
    films.sync("notes")
    expect(opened.locator(".recent").first).to_contain_text("new.md")
    expect(opened.locator(".examples li").first).to_be_visible()
    assert sum(url.endswith("/examples") for url in view.requests) == asked
    added.unlink()
    films.sync("notes")


def test_an_error_shows_what_to_type_as_code(opened: Page, view: Shown) -> None:
    opened.goto(view.base + "/passage/0000000000000000")
    expect(opened.locator("main code")).to_have_text("at")
