"""Web pages against a real server: what goes wrong there, and what must never be asked."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from connectors.protocol import (
    Cursor,
    Gone,
    Item,
    ItemUnreadable,
    ItemVanished,
    Problem,
    SourceUnavailable,
)
from connectors.settings import WebSettings
from connectors.web.fetch import PageFetcher, is_public
from connectors.web.site import WebConnector
from tests.contract.site import (
    MAX_BYTES,
    Answer,
    Site,
    certificate_of,
    cursor_of,
    ids,
    link,
    page,
    problems,
    sitemap,
    web,
    zipped,
)


class TestTroubles:
    @pytest.mark.parametrize("status", [404, 410])
    def test_a_page_that_answers_404_or_410_is_removed(self, site: Site, status: int) -> None:
        site.answers["/"] = page("Home", links=link("/a"))
        site.answers["/a"] = page("A")
        connector = web(site, depth=1)
        cursor = cursor_of(connector)
        site.answers["/a"] = Answer(status=status)
        assert [f.id for f in connector.discover(cursor) if isinstance(f, Gone)] == [site.url("/a")]
        with pytest.raises(ItemVanished):
            connector.fetch(Item(site.url("/a"), "other"))

    @pytest.mark.parametrize("status", [500, 503, 401, 403, 418])
    def test_a_page_that_fails_keeps_its_last_version(self, site: Site, status: int) -> None:
        site.answers["/"] = page("Home", links=link("/a"))
        site.answers["/a"] = page("A")
        connector = web(site, depth=1)
        cursor = cursor_of(connector)
        connector.close()
        site.answers["/a"] = Answer(status=status)
        found = list(connector.discover(cursor))
        (problem,) = (f for f in found if isinstance(f, Problem))
        assert (problem.id, str(status) in problem.why) == (site.url("/a"), True)
        assert not any(isinstance(f, Gone) for f in found)
        with pytest.raises(ItemUnreadable):
            connector.fetch(Item(site.url("/a"), "other"))
        site.answers["/a"] = page("A")
        assert isinstance(found[-1], Cursor)
        assert ids(connector, site, found[-1].value) == ["/", "/a"]

    def test_a_server_that_sends_too_slowly_is_abandoned_in_time(self, site: Site) -> None:
        def drip(handler: BaseHTTPRequestHandler) -> None:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
            for _ in range(1200):
                handler.wfile.write(b"X-A: b\r\n")
                handler.wfile.flush()
                time.sleep(0.1)

        site.answers["/"] = drip
        began_s = time.monotonic()
        with pytest.raises(SourceUnavailable, match="within 1 s"):
            list(web(site, timeout_s=1.0).discover(None))
        assert time.monotonic() - began_s < 60

    def test_bombs_are_refused(self, site: Site) -> None:
        bomb = Answer(b"<p>" + b"a" * 50_000_000)
        site.answers["/"] = sitemap(*(site.url(f"/{name}") for name in ("big", "packed")))
        site.answers["/big"] = bomb
        site.answers["/packed"] = Answer(zipped(bomb).body, headers={"Content-Encoding": "gzip"})
        assert ["too large" in why for why in problems(web(site))] == [True, True]

    def test_a_small_packed_page_is_read_and_a_truncated_one_is_refused(self, site: Site) -> None:
        packed = zipped(Answer(b"<p>" + b"calm " * 10_000)).body
        assert len(packed) < 200
        site.answers["/"] = sitemap(*(site.url(f"/{name}") for name in ("whole", "cut")))
        headers = {"Content-Encoding": "gzip"}
        site.answers["/whole"] = Answer(packed, headers=headers)
        site.answers["/cut"] = Answer(packed[:-20], headers=headers)
        connector = web(site)
        item, problem, _ = connector.discover(None)
        assert isinstance(item, Item) and isinstance(problem, Problem)
        assert connector.fetch(item).data.count(b"calm") == 10_000
        assert (problem.id, "truncated" in problem.why) == (site.url("/cut"), True)

    @pytest.mark.parametrize(
        "xml",
        [
            '<!DOCTYPE rss [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><rss>&b;</rss>',
            '<!DOCTYPE rss [<!ENTITY x SYSTEM "file:///etc/passwd">]><rss><channel><item>'
            "<link>&x;</link></item></channel></rss>",
            "<rss><channel>",
            "<a>" * 500,
            "<svg></svg>",
            "<?xml version='1.0' encoding='klingon'?><rss/>",
        ],
    )
    def test_unsafe_or_damaged_feeds_are_reported(self, site: Site, xml: str) -> None:
        site.answers["/"] = Answer(xml.encode(), media_type="text/xml")
        site.answers["/a"] = page("A")
        assert len(problems(web(site, "/", "/a"))) == 1

    @pytest.mark.parametrize(
        "html",
        ["<!--" * 100_000, "<a '" * 100_000, "<script>" * 50_000, "<nav>" * 100_000, "<" * 400_000,
         "<a href=" * 50_000, "<main>" * 60_000 + "x", "<nav></nav" * 40_000],
    )  # fmt: skip
    def test_pages_made_to_be_slow_are_read_in_bounded_time(self, site: Site, html: str) -> None:
        site.answers["/"] = Answer(html.encode())
        began_s = time.process_time()
        with suppress(SourceUnavailable):
            list(web(site, max_bytes=500_000).discover(None))
        assert time.process_time() - began_s < 3


class TestWhatIsNeverAsked:
    def test_private_addresses_are_refused_unless_allowed(self, site: Site) -> None:
        site.answers["/"] = page("Home")
        with pytest.raises(SourceUnavailable, match=r"a private address.*`allow_private = true`"):
            list(web(site, allow_private=False).discover(None))
        assert site.requests == []

    @pytest.mark.parametrize(
        "address",
        ["127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "100.64.0.1",
         "0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1%eth0", "fc00::1",
         "::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::", "64:ff9b::7f00:1", "ff02::1",
         "::7f00:1", "fec0::1", "64:ff9b:1::a00:1", "5f00::1", "192.0.0.8"],
    )  # fmt: skip
    def test_addresses_of_this_machine_and_network_are_private(self, address: str) -> None:
        assert not is_public(address)

    @pytest.mark.parametrize(
        "address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::5db8:d822"]
    )
    def test_addresses_of_the_internet_are_public(self, address: str) -> None:
        assert is_public(address)

    def test_a_redirect_into_the_private_network_is_refused(self, site: Site) -> None:
        """127.0.0.1 stands for a public address here, and 127.0.0.2 for a private one."""
        inside = Site("127.0.0.2")
        try:
            inside.answers["/"] = page("secret")
            for target in (
                inside.url(),
                f"http://inside.test:{inside.port}/",
                "file:///etc/passwd",
            ):
                site.answers["/"] = Answer(status=302, headers={"Location": target})
                connector = at_names(site, {"inside.test": ["127.0.0.2"]}, hosts=("*",))
                with pytest.raises(
                    SourceUnavailable, match=r"private address|redirects to an address"
                ):
                    list(connector.discover(None))
            assert inside.requests == []
        finally:
            inside.stop()

    def test_a_host_name_that_changes_its_address_cannot_reach_private_addresses(
        self, site: Site
    ) -> None:
        """The second look-up says another address: what was checked is what is connected to."""
        inside = Site("127.0.0.2")
        try:
            inside.answers["/"] = page("secret")
            answers = iter([["127.0.0.1"], ["127.0.0.2"], ["127.0.0.1", "127.0.0.2"]])
            site.answers["/"] = page("Home")
            connector = at_names(site, {"public.test": answers})
            with pytest.raises(SourceUnavailable, match=r"127\.0\.0\.2, a private address"):
                list(connector.discover(None))
            assert inside.requests == []
            assert site.requests == [("/robots.txt", 404)]
        finally:
            inside.stop()

    def test_an_address_is_connected_to_under_the_certificate_of_its_name(
        self, site: Site, tmp_path: Path
    ) -> None:
        """The request goes to 127.0.0.1, for which the certificate is not."""
        site.answers["/"] = page("Home")
        site.serve_tls(*certificate_of("public.test", tmp_path))
        script = (
            "import sys; from connectors.web.fetch import PageFetcher, Unreachable\n"
            "client = PageFetcher(10.0, 1000, lambda _: True, lambda *_: ['127.0.0.1'])\n"
            "try: print(client.get(sys.argv[1], {}, lambda _: True).body)\n"
            "except Unreachable as error: print(error.why)\n"
        )
        output = [
            subprocess.run(
                [sys.executable, "-c", script, f"https://{name}:{site.port}/"],
                cwd=Path(__file__).parents[2],
                env={**os.environ, "SSL_CERT_FILE": str(tmp_path / "cert.pem")},
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            ).stdout
            for name in ("public.test", "another.test")
        ]
        assert "Home" in output[0]
        assert "another.test" in output[1]
        assert "certificate" in output[1]

    def test_a_host_is_asked_at_each_of_its_addresses(self, site: Site) -> None:
        site.answers["/"] = page("Home")
        client = PageFetcher(30.0, MAX_BYTES, lambda _: True, lambda *_: ["127.0.0.3", "127.0.0.1"])
        reply = client.get(f"http://public.test:{site.port}/", {}, lambda _: True)
        assert b"Home" in reply.body

    def test_a_redirect_to_another_host_is_not_followed(self, site: Site) -> None:
        site.answers["/"] = Answer(status=301, headers={"Location": "http://elsewhere.test/"})
        with pytest.raises(
            SourceUnavailable, match=r"another host.*\"elsewhere\.test\" to `hosts`"
        ):
            list(web(site).discover(None))

    def test_a_moved_page_is_reported_with_its_new_address(self, site: Site) -> None:
        site.answers["/"] = Answer(status=301, headers={"Location": "/there"})
        site.answers["/there"] = Answer(b"<p>High tide at noon.</p>")
        connector = web(site)
        (item,) = (f for f in connector.discover(None) if isinstance(f, Item))
        assert connector.fetch(item).origin == {"url": site.url("/there")}

    def test_endless_redirects_are_abandoned(self, site: Site) -> None:
        site.answers["/"] = Answer(status=302, headers={"Location": "/"})
        with pytest.raises(SourceUnavailable, match="more than 5 times"):
            list(web(site).discover(None))

    @pytest.mark.parametrize("start", ["ftp://x.org/", "file:///etc/passwd", "http://u:p@x.org/"])
    def test_only_plain_web_addresses_are_taken(self, start: str) -> None:
        with pytest.raises(ValueError, match="not a web address"):
            WebConnector(WebSettings((start,)))


def at_names(
    site: Site, names: dict[str, Sequence[str] | Iterator[Sequence[str]]], **settings: object
) -> WebConnector:
    """A connector that starts at public.test, for which names stand for these addresses."""

    def resolve(host: str, _: int) -> Sequence[str]:
        found = names.get(host, ["127.0.0.1"] if host == "public.test" else [host])
        return next(found) if isinstance(found, Iterator) else found

    client = PageFetcher(60.0, MAX_BYTES, lambda address: address == "127.0.0.1", resolve)
    start = (f"http://public.test:{site.port}/",)
    wanted = WebSettings(start, delay_s=0.0, **settings)  # type: ignore[arg-type]
    return WebConnector(wanted, client)
