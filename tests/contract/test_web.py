"""Web pages against a real server: what is listed, and manners."""

import json
import time
from pathlib import Path

import pytest

from connectors.protocol import Cursor, CursorExpired, Gone, Item, Problem, SourceUnavailable
from hopsyncd.formats.readers import extract
from hopsyncd.ingest.plan import Scope
from store.content import read_passages
from store.reads import list_documents
from store.records import Passage
from tests.contract.site import (
    Answer,
    Site,
    cursor_of,
    ids,
    link,
    page,
    problems,
    sitemap,
    web,
    zipped,
)
from tests.fakes.stack import Stack


def passages_of(stack: Stack) -> list[Passage]:
    """Those in force."""
    documents = list_documents(stack.connection, stack.head.id, stack.source.id)
    ids = [place.passage for document in documents for place in document.occurrences]
    return [*read_passages(stack.connection, ids).values()]


class TestWhatIsListed:
    def test_a_page_is_read_alone_or_with_the_pages_that_it_links_to(self, site: Site) -> None:
        site.answers["/"] = page(
            "Home", links=link("a", "/b#top", "http://elsewhere.test/c", "mailto:x@y.z", "d.png")
        )
        site.answers["/a"] = page("A", links=link("/deeper"))
        site.answers["/b"] = page("B", links=link("/"))
        site.answers["/deeper"] = page("D")
        assert ids(web(site), site) == ["/"]
        assert ids(web(site, depth=1), site) == ["/", "/a", "/b"]

    def test_a_page_is_read_by_its_main_part(self, site: Site) -> None:
        site.answers["/"] = Answer(
            b"<title>The &amp; quay</title><nav><a href=/x>Menu</a></nav><header>Banner</header>"
            b"<script>var token = 17</script><main class='x'><header><h1>Tides</h1></header>"
            b"<p id=t17>High at <a href='/noon'>noon</a>.<aside>Buy boots</aside></p></main>"
            b"<footer>(c)</footer>",
            headers={"Last-Modified": "Mon, 02 Nov 2026 10:00:00 GMT"},
        )
        connector = web(site)
        (item,) = (f for f in connector.discover(None) if isinstance(f, Item))
        fetched = connector.fetch(item)
        assert "script" not in fetched.data.decode()
        blocks = extract(fetched.data, fetched.media_type)
        assert [block.text for block in blocks if block.text] == [
            "The & quay", "Tides", "High at noon.", "Buy boots",
        ]  # fmt: skip
        assert [link.target for block in blocks for _, link in block.links] == [site.url("/noon")]
        assert fetched.title == "The & quay"
        assert fetched.modified_ms == 1_793_613_600_000
        assert fetched.links == (site.url("/noon"),)
        assert fetched.origin == {}
        assert site.asked() == ["/"]

    def test_a_cursor_of_another_release_makes_the_next_listing_one_of_everything(
        self, site: Site
    ) -> None:
        site.answers["/"] = page("Home")
        mark, known = json.loads(cursor_of(web(site)))
        (row,) = known.values()
        older = json.dumps([mark, {site.url("/"): [*row[:3], 1000, *row[3:]]}])
        with pytest.raises(CursorExpired):
            list(web(site).discover(older))

    def test_sitemaps_of_sitemaps_also_packed_ones(self, site: Site) -> None:
        pages = [site.url(f"/{key}") for key in "abc"]
        site.answers["/sitemap.xml"] = Answer(
            f"<sitemapindex><sitemap><loc>{site.url('/1.xml')}</loc></sitemap><sitemap>"
            f"<loc> {site.url('/2.xml.gz')} </loc></sitemap></sitemapindex>".encode(),
            media_type="application/xml",
        )
        site.answers["/1.xml"] = sitemap(pages[0])
        site.answers["/2.xml.gz"] = zipped(sitemap(*pages[1:]))
        site.answers |= {f"/{key}": page(key) for key in "abc"}
        assert ids(web(site, "/sitemap.xml"), site) == ["/a", "/b", "/c"]

    @pytest.mark.parametrize(
        "feed",
        [
            '<rss version="2.0"><channel><link>/</link><item><link>/a</link></item>'
            "<item><title>t</title><link>/b</link></item></channel></rss>",
            '<feed xmlns="http://www.w3.org/2005/Atom"><link href="/"/><entry><link href="/a"/>'
            '<link rel="edit" href="/no"/></entry><entry><link rel="alternate" href="/b"/></entry>'
            "</feed>",
            '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
            'xmlns="http://purl.org/rss/1.0/"><item><link>/a</link></item><item><link>/b</link>'
            "</item></rdf:RDF>",
        ],
    )
    def test_feeds_name_pages(self, site: Site, feed: str) -> None:
        site.answers["/feed"] = Answer(feed.encode(), media_type="text/xml")
        site.answers |= {"/a": page("A"), "/b": page("B"), "/": page("Home")}
        assert ids(web(site, "/feed"), site) == ["/a", "/b"]

    def test_an_entry_that_left_its_feed_stays_while_it_answers(self, site: Site) -> None:
        def feed(*paths: str) -> Answer:
            rows = "".join(f"<item><link>{path}</link></item>" for path in paths)
            text = f"<rss><channel>{rows}</channel></rss>"
            return Answer(text.encode(), media_type="application/rss+xml")

        site.answers |= {"/feed": feed("/a", "/b"), "/a": page("A"), "/b": page("B")}
        connector = web(site, "/feed")
        cursor = cursor_of(connector)
        site.answers |= {"/feed": feed("/c"), "/c": page("C")}
        found = list(connector.discover(cursor))
        assert [f.id[-2:] for f in found if isinstance(f, Item)] == ["/c", "/a", "/b"]
        parts = connector.discover(None, [site.url("/a")])
        assert [f.id for f in parts if isinstance(f, Item)] == [site.url("/a")]
        del site.answers["/a"]
        assert isinstance(found[-1], Cursor)
        gone = [f.id for f in connector.discover(found[-1].value) if isinstance(f, Gone)]
        assert gone == [site.url("/a")]

    def test_an_entry_that_left_its_feed_is_kept_as_it_is_now(
        self, site: Site, tmp_path: Path
    ) -> None:
        site.answers |= {"/feed": sitemap(site.url("/a"), site.url("/b")), "/b": page("B")}
        site.answers["/a"] = page("Rome is old.")
        stack = Stack(tmp_path / "graph.db", web(site, "/feed"))
        stack.sync()
        site.answers |= {"/feed": sitemap(site.url("/b")), "/a": page("Oslo is cold.")}
        stack.path.sync(stack.source, Scope(whole=True))
        assert "Oslo is cold." in {passage.text for passage in passages_of(stack)}
        assert "Rome is old." not in {passage.text for passage in passages_of(stack)}
        stack.close()

    def test_the_links_of_a_page_are_those_of_its_newest_content(
        self, site: Site, tmp_path: Path
    ) -> None:
        def to(path: str) -> Answer:
            return Answer(status=302, headers={"Location": path})

        site.answers |= {"/": to("/a"), "/a": page("Home"), "/b": page("Home")}
        stack = Stack(tmp_path / "graph.db", web(site))
        stack.sync()
        site.answers["/"] = to("/b")
        stack.sync()
        (document,) = list_documents(stack.connection, stack.head.id, stack.source.id)
        assert json.loads(document.origin) == {"url": site.url("/b")}
        stack.close()

    def test_a_sitemap_is_read_even_if_its_parent_sitemap_is_unchanged(self, site: Site) -> None:
        index = f"<sitemapindex><sitemap><loc>{site.url('/1.xml')}</loc></sitemap></sitemapindex>"
        site.answers["/sitemap.xml"] = Answer(index.encode(), media_type="text/xml")
        site.answers |= {"/1.xml": sitemap(site.url("/a")), "/a": page("A"), "/b": page("B")}
        connector = web(site, "/sitemap.xml")
        cursor = cursor_of(connector)
        site.answers["/1.xml"] = sitemap(site.url("/a"), site.url("/b"))
        assert sorted(ids(connector, site, cursor)) == ["/a", "/b"]

    def test_pages_of_a_feed_at_other_hosts_are_reported(self, site: Site) -> None:
        site.answers["/feed"] = Answer(
            b"<rss><channel><item><link>http://elsewhere.test/a</link></item></channel></rss>",
            media_type="text/xml",
        )
        (why,) = problems(web(site, "/feed"))
        assert why.startswith("this page is the first of 1 page on hosts outside the source")

    def test_pages_beyond_the_limit_are_reported(self, site: Site) -> None:
        site.answers["/"] = sitemap(*(site.url(f"/{n}") for n in range(9)))
        site.answers |= {f"/{n}": page(str(n)) for n in range(9)}
        connector = web(site, max_pages=4)
        assert len(ids(connector, site)) == 4
        (why,) = problems(connector)
        assert why == "this page is the first of 5 pages beyond the limit of 4 pages"
        assert sorted(ids(connector, site, cursor_of(connector))) == ["/0", "/1", "/2", "/3"]

    def test_known_pages_beyond_the_limit_are_visited_in_turn(self, site: Site) -> None:
        site.answers |= {f"/{n}": page(str(n)) for n in range(1, 6)}
        connector = web(site, max_pages=3)

        def listed(since: str | None, *named: int) -> tuple[list[str], list[str], str]:
            site.answers["/"] = sitemap(*(site.url(f"/{n}") for n in named))
            *found, last = connector.discover(since)
            assert isinstance(last, Cursor)
            assert not any(isinstance(one, Problem) for one in found)
            items = [one.id[-1] for one in found if isinstance(one, Item)]
            return items, [one.id[-1] for one in found if isinstance(one, Gone)], last.value

        items, _, cursor = listed(None, 1, 2, 3)
        assert items == ["1", "2", "3"]
        items, _, cursor = listed(cursor, 4, 5)
        assert items == ["4", "5", "1"]
        del site.answers["/3"]
        items, gone, cursor = listed(cursor, 4, 5)
        assert (items, gone) == (["2", "4", "5"], ["3"])
        items, gone, cursor = listed(cursor, 4, 5)
        assert (items, gone) == (["1", "2", "4"], [])
        items, _, cursor = listed(cursor, 1, 4, 5)
        assert items == ["5", "1", "4"]

    def test_known_pages_that_the_cursor_cannot_hold_are_reported(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("connectors.web.site._MAX_KNOWN_PAGES", 4)
        site.answers |= {f"/{n}": page(str(n)) for n in range(6)}
        site.answers["/"] = sitemap(*(site.url(f"/{n}") for n in range(3)))
        connector = web(site, max_pages=3)
        cursor = cursor_of(connector)
        site.answers["/"] = sitemap(*(site.url(f"/{n}") for n in range(3, 6)))
        (problem,) = (one for one in connector.discover(cursor) if isinstance(one, Problem))
        assert problem.id == site.url("/0")
        assert "first of 3 pages that hopsyncd no longer visits" in problem.why

    def test_sitemaps_beyond_the_limit_are_reported(self, site: Site) -> None:
        maps = "".join(f"<sitemap><loc>{site.url(f'/{n}.xml')}</loc></sitemap>" for n in range(53))
        index = f"<sitemapindex>{maps}{maps}</sitemapindex>"
        site.answers["/"] = Answer(index.encode(), media_type="text/xml")
        site.answers |= {f"/{n}.xml": sitemap(site.url("/a")) for n in range(53)}
        site.answers["/a"] = page("A")
        (problem,) = (one for one in web(site).discover(None) if isinstance(one, Problem))
        assert problem.id == site.url("/50.xml")
        assert problem.why == "this sitemap is the first of 3 sitemaps beyond the limit of 50"

    def test_other_text_types_charsets_and_packed_pages_are_read(self, site: Site) -> None:
        site.answers["/"] = sitemap(*(site.url(f"/{name}") for name in ("t", "l", "z", "i")))
        site.answers["/t"] = Answer(b"# Tides", media_type="text/markdown")
        site.answers["/l"] = Answer(b"<p>K\xf6ln</p>", media_type="text/html; charset=latin-1")
        site.answers["/z"] = Answer(
            zipped(page("packed")).body, headers={"Content-Encoding": "gzip"}
        )
        site.answers["/i"] = Answer(b"\x89PNG", media_type="image/png")
        connector = web(site)
        found = [f for f in connector.discover(None) if isinstance(f, Item)]
        fetched = [connector.fetch(item) for item in found]
        assert [f.media_type for f in fetched[:2]] == [
            "text/markdown; charset=utf-8", "text/html; charset=utf-8",
        ]  # fmt: skip
        assert fetched[1].data == "<p>Köln</p>".encode()
        assert b"packed" in fetched[2].data
        assert len(fetched) == 3

    def test_a_charset_with_characters_that_utf_8_lacks_is_read(self, site: Site) -> None:
        body = b"<p>\xff half \\ud800 <a href='/\\ud800'>a pair</a>"
        site.answers["/"] = Answer(body, media_type="text/html; charset=unicode_escape")
        connector = web(site)
        (item,) = (f for f in connector.discover(None) if isinstance(f, Item))
        assert "half ? <a" in connector.fetch(item).data.decode()


class TestWhatIsSent:
    def test_unchanged_pages_are_not_sent_again(self, site: Site) -> None:
        site.answers["/"] = page("Home", links=link("/a", "/b"))
        site.answers |= {"/a": page("A"), "/b": page("B")}
        connector = web(site, depth=1)
        cursor = cursor_of(connector)
        connector.close()
        site.requests.clear()
        site.answers["/b"] = page("B, anew")
        again = web(site, depth=1)
        before, after = (
            {f.id: f.revision for f in web(site, depth=1).discover(since) if isinstance(f, Item)}
            for since in (cursor, None)
        )
        assert before == after
        assert site.asked(304)[:2] == ["/", "/a"]
        assert site.asked(200)[0] == "/b"
        again.close()

    def test_a_page_that_differs_only_in_its_scripts_keeps_its_revision(self, site: Site) -> None:
        revisions = []
        for token in ("1", "23"):
            html = f"<meta name=t content={token}><script>t={token}</script><p class=c{token}>Same."
            site.answers["/"] = Answer(html.encode(), etag="")
            revisions += [f.revision for f in web(site).discover(None) if isinstance(f, Item)]
        assert revisions[0] == revisions[1]

    def test_pages_that_the_listing_read_are_not_requested_twice(self, site: Site) -> None:
        site.answers["/"] = page("Home")
        connector = web(site)
        (item,) = (f for f in connector.discover(None) if isinstance(f, Item))
        connector.fetch(item)
        assert site.asked() == ["/"]
        connector.fetch(item)
        assert site.asked() == ["/", "/"]

    def test_robots_txt_excludes_pages(self, site: Site) -> None:
        site.answers["/robots.txt"] = Answer(
            b"User-agent: *\nDisallow: /private\nCrawl-delay: 0\n", media_type="text/plain"
        )
        site.answers["/"] = page("Home", links=link("/private/a", "/b"))
        site.answers |= {"/private/a": page("A"), "/b": page("B")}
        assert ids(web(site, depth=1), site) == ["/", "/b"]
        assert "/private/a" not in site.asked()
        with pytest.raises(SourceUnavailable, match=r"robots\.txt forbids"):
            list(web(site, "/private/a").discover(None))

    @pytest.mark.parametrize(
        ("robots", "allowed"),
        [
            ("User-agent: *\nAllow: /\nDisallow: /private", ["/b"]),
            ("User-agent: *\nDisallow: /\nAllow: /b", ["/b"]),
            ("User-agent: *\nDisallow: /*/a$", ["/b"]),
            ("User-agent: *\nDisallow: /\n\nUser-agent: HopSyncd\nDisallow: /b", ["/private/a"]),
            ("User-agent: other\nDisallow: /", ["/private/a", "/b"]),
            ("\ufeffUser-agent: *\nDisallow: /b", ["/private/a"]),
        ],
    )
    def test_the_most_specific_rule_of_robots_txt_applies(
        self, site: Site, robots: str, allowed: list[str]
    ) -> None:
        site.answers["/robots.txt"] = Answer(robots.encode(), media_type="text/plain")
        site.answers |= {"/private/a": page("A"), "/b": page("B")}
        assert ids(web(site, "/private/a", "/b"), site) == allowed

    def test_a_huge_robots_txt_takes_bounded_time(self, site: Site) -> None:
        lines = [f"Useragent: hopsyncd{n}*" for n in range(5000)]
        lines += [f"Disallow: /{n}" for n in range(5000)]
        site.answers["/robots.txt"] = Answer("\r".join(lines).encode(), media_type="text/plain")
        site.answers["/"] = page("Home")
        began_s = time.process_time()
        assert ids(web(site, max_bytes=500_000), site) == ["/"]
        assert time.process_time() - began_s < 5

    def test_an_unreadable_robots_txt_forbids_everything(self, site: Site) -> None:
        site.answers |= {"/robots.txt": Answer(status=503), "/": page("Home")}
        with pytest.raises(SourceUnavailable, match=r"robots\.txt cannot be read"):
            list(web(site).discover(None))
        assert site.asked() == []

    def test_a_host_is_given_time_between_requests(self, site: Site) -> None:
        site.answers["/"] = page("Home", links=link("/a", "/b"))
        site.answers |= {"/a": page("A"), "/b": page("B")}
        began_s = time.monotonic()
        list(web(site, depth=1, delay_s=0.15).discover(None))
        assert time.monotonic() - began_s >= 3 * 0.15

    def test_a_host_that_is_asked_too_often_is_left_alone(self, site: Site) -> None:
        site.answers["/"] = page("Home", links=link("/a", "/b"))
        site.answers |= {"/a": Answer(status=429), "/b": page("B")}
        connector = web(site, depth=1)
        assert ids(connector, site) == ["/"]
        assert "/b" not in site.asked()
        del site.answers["/a"]
        assert ids(connector, site) == ["/", "/b"]
