"""Passages, documents, the graph around them, and several queries at once, over the socket."""

from collections.abc import Iterator
from typing import Any

import pytest

from hopsyncd.client import Client, RequestFailed
from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.e2e.films import FILMS

ASKED = "Where did the director of The Bronze Door grow up?"


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        for path, text in FILMS.items():
            made.write(path, text)
        other = made.base / "other"
        other.mkdir()
        (other / "copy.md").write_text(FILMS["places/bergen.md"])
        (other / "long.md").write_text(
            "".join(f"# Part {n}\n\nThe lamp of room {n} is lit at dusk.\n\n" for n in range(5))
        )
        made.configure(
            "[watch]\nenabled = false\n" + source("notes", made.notes) + source("other", other)
        )
        made.start()
        made.sync()
        yield made


@pytest.fixture(scope="module")
def client(place: Place) -> Client:
    return Client(place.socket)


def id_of(client: Client, document: str, source: str = "notes") -> str:
    (passage,) = client.document(source, document)["passages"]
    return passage["id"]


def refused(code: str, ask: Any, *given: Any, **more: Any) -> RequestFailed:
    with pytest.raises(RequestFailed) as failed:
        ask(*given, **more)
    assert failed.value.code == code
    return failed.value


def test_a_passage_has_its_text_places_and_questions(client: Client) -> None:
    told = client.passage(id_of(client, "places/bergen.md"))
    passage = told["passage"]
    assert passage["text"].startswith("Bergen has a harbour")
    assert (passage["source"], passage["document"]) == ("notes", "places/bergen.md")
    assert [place["document"] for place in passage["also_in"]] == ["copy.md"]
    assert "What is Bergen?" in told["questions"]["incoming"]
    assert (told["version"], told["degraded"]) == (client.health()["version"], [])


def test_the_beginning_of_an_id_is_accepted(client: Client) -> None:
    whole = id_of(client, "places/bergen.md")
    assert client.passage(whole[:8]) == client.passage(whole)
    assert client.neighbours(whole[:8])["passages"][0]["id"] == whole


def test_documents_are_listed_in_pages_that_together_are_all(client: Client) -> None:
    listed: list[tuple[str, str]] = []
    after = None
    for _ in range(20):
        page = client.documents(after=after, limit=3)
        listed += [(document["source"], document["document"]) for document in page["documents"]]
        after = page["next"]
        if after is None:
            break
    expected = [("notes", path) for path in FILMS] + [("other", "copy.md"), ("other", "long.md")]
    assert listed == sorted(expected)


def test_documents_of_one_source_and_in_one_folder(client: Client) -> None:
    def listed(**more: Any) -> list[str]:
        return [document["document"] for document in client.documents(**more)["documents"]]

    assert listed(source="other") == ["copy.md", "long.md"]
    assert listed(under="people") == ["people/kaltenbrunn.md", "people/lindqvist.md"]
    assert listed(under="people/") == listed(under="people")
    assert listed(under="peop") == []
    refused("not_found", client.documents, source="nowhere")
    assert listed(source="notes", under="places/bergen.md") == ["places/bergen.md"]
    (one,) = client.documents(source="other", under="long.md")["documents"]
    assert (one["title"], one["passages"]) == ("long", 5)


def test_a_document_is_given_in_reading_order_with_its_own_place_first(client: Client) -> None:
    passages = client.document("other", "long.md")["passages"]
    assert [passage["heading"] for passage in passages] == [["long", f"Part {n}"] for n in range(5)]
    (copied,) = client.document("other", "copy.md")["passages"]
    assert (copied["document"], copied["also_in"][0]["document"]) == (
        "copy.md",
        "places/bergen.md",
    )


def test_neighbours_are_found_by_the_question_that_joins_them(client: Client) -> None:
    film, director = id_of(client, "films/bronze-door.md"), id_of(client, "people/kaltenbrunn.md")
    near = client.neighbours(film)
    assert [(passage["id"], passage["distance"]) for passage in near["passages"]] == [
        (film, 0),
        (director, 1),
    ]
    (edge,) = near["edges"]
    assert (edge["from"], edge["to"], edge["asked_by"]) == (film, director, "from")
    assert edge["question"] == "What is said of Mira Kaltenbrunn?"
    farther = {
        passage["document"]: passage["distance"]
        for passage in client.neighbours(film, 2)["passages"]
    }
    assert farther["places/ostrava-vale.md"] == 2


def test_a_path_joins_two_passages_by_hops(client: Client) -> None:
    film, village = id_of(client, "films/bronze-door.md"), id_of(client, "places/ostrava-vale.md")
    path = client.paths(film, village)["paths"][0]
    assert [hop["to"]["document"] for hop in path] == [
        "people/kaltenbrunn.md",
        "places/ostrava-vale.md",
    ]
    assert client.paths(film, village, max_hops=1)["paths"] == []


def test_requests_for_missing_objects_return_not_found(client: Client) -> None:
    known = id_of(client, "places/bergen.md")
    unknown = "0000000000000001"
    refused("not_found", client.passage, unknown)
    refused("not_found", client.neighbours, unknown)
    refused("not_found", client.paths, known, unknown)
    refused("not_found", client.document, "notes", "nowhere.md")
    refused("not_found", client.document, "nowhere", "places/bergen.md")
    refused("bad_request", client.passage, "../status")
    refused("no_such_version", client.documents, at="nowhere")


def test_everything_can_be_read_at_a_past_version(place: Place, client: Client) -> None:
    before = str(client.health()["version"])
    old = id_of(client, "films/vesper.md")
    place.write("films/vesper.md", "# Vesper\n\nVesper was never made.\n")
    place.sync()
    new = id_of(client, "films/vesper.md")
    refused("not_found", client.passage, old)
    refused("not_found", client.passage, new, at=before)
    assert "nun" in client.passage(old, at=before)["passage"]["text"]
    assert client.document("notes", "films/vesper.md", at=before)["passages"][0]["id"] == old
    assert client.neighbours(old, at=before)["version"] == int(before)
    (place.notes / "films/vesper.md").unlink()
    place.sync()
    refused("not_found", client.document, "notes", "films/vesper.md")
    assert [
        document["document"]
        for document in client.documents(under="films/vesper.md", at=before)["documents"]
    ]


def test_several_queries_are_answered_in_order_each_as_if_alone(client: Client) -> None:
    alone = [client.query(ASKED, k=2), client.query("Tove Lindqvist", strategy="bm25")]
    asked: list[Any] = [
        {"question": ASKED, "k": 2},
        {"question": "What?", "at": "nowhere"},
        {"question": "What?", "reasoner": "llm"},
        {"question": "Tove Lindqvist", "strategy": "bm25"},
    ]
    answers: list[Any] = client.queries(asked)["answers"]
    first, unknown, refused_, last = answers
    assert [first, last] == alone
    assert unknown["error"]["code"] == "no_such_version"
    assert refused_["error"]["code"] == "bad_request"


def test_several_queries_are_of_one_version_while_documents_change(
    place: Place, client: Client
) -> None:
    versions: list[int] = []

    def has_changed() -> bool:
        round_ = len(versions)
        place.write(f"changing/{round_}.md", f"# Change {round_}\n\nRound {round_} has begun.\n")
        client.start_sync()
        answers: list[Any] = client.queries([{"question": ASKED, "k": 1}] * 40)["answers"]
        assert len({answer["version"] for answer in answers}) == 1
        versions.append(answers[0]["version"])
        return len(versions) > 5 and len({*versions}) > 1

    place.until(has_changed)


@pytest.mark.parametrize("number", [0, 101])
def test_no_queries_and_too_many_are_refused(client: Client, number: int) -> None:
    assert "queries" in str(refused("bad_request", client.queries, [{"question": "x"}] * number))


def test_requests_are_counted_by_endpoint(client: Client) -> None:
    before = client.stats()["requests"].get("passage", {"count": 0, "errors": 0})
    client.passage(id_of(client, "places/bergen.md"))
    refused("not_found", client.passage, "0000000000000001")
    after = client.stats()["requests"]["passage"]
    assert after["count"] == before["count"] + 2
    assert after["errors"] == before["errors"] + 1
    assert 0 < after["p50_ms"] <= after["p95_ms"]
