"""A server whose page browsers of other machines open, and how people log in to it."""

import re
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import parse_qs, urlsplit

import httpx2
from playwright.sync_api import Browser, BrowserContext, Page

from tests.e2e.daemon import GC_LATER, SMALL, Place, new_place, source
from tests.fakes.browser import PATIENCE_S
from tests.fakes.certificates import Authority
from tests.fakes.port import free_port
from tests.fakes.provider import CLIENT_ID, CLIENT_SECRET, Claims, LoginProvider

CANARY = "zyxwort"
NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"}
PEOPLE: dict[str, Claims] = {
    "ann": {"groups": ["/board", "editors"]},
    "bob": {"groups": []},
    "eve": {"groups": ["interns"], "preferred_username": "not a name!"},
    "olga": {"groups": ["ops"]},
}


class Server:
    """A daemon whose page is at `address`; people log in at `provider`, if there is one."""

    def __init__(self, place: Place, provider: LoginProvider | None, authority: Authority) -> None:
        self.place, self.provider, self.authority = place, provider, authority
        place.home.mkdir(exist_ok=True)
        self.port = free_port()
        self.address = f"https://localhost:{self.port}"
        cert, key = authority.issue()
        place.write("open/barge.md", "# Barges\n\nA barge carries salt.\n")
        place.write("closed/plan.md", f"# Plan\n\nThe barge {CANARY} carries gold.\n")
        (place.base / "inbox").mkdir()
        secret = place.base / "secret"
        secret.touch(0o600)
        secret.write_text(CLIENT_SECRET)
        login = (
            f'[access.oidc]\nissuer = "{provider.issuer}"\nclient_id = "{CLIENT_ID}"\n'
            f'client_secret_file = "{secret}"\nca = "{authority.file}"\n'
            'roles = { editors = "write", ops = "admin" }\n'
            if provider
            else ""
        )
        place.configure(
            source("open", place.notes / "open")
            + source("closed", place.notes / "closed")
            + 'visible_to = ["group:board"]\n'
            + f'[access]\nlisten = "127.0.0.1:{self.port}"\ntls_cert = "{cert}"\n'
            + f'tls_key = "{key}"\npage = "{self.address}"\n{login}'
            + f'[mcp]\ninbox = "{place.base}/inbox"\n{GC_LATER}'
        )
        place.start()
        place.sync()

    @contextmanager
    def http(self, peer: str = "127.0.0.1", **headers: str) -> Iterator[httpx2.Client]:
        """A client of HTTP that keeps cookies as a browser does, and follows nothing.

        peer: its address.
        """
        context = ssl.create_default_context(cafile=self.authority.file)
        with httpx2.Client(
            transport=httpx2.HTTPTransport(verify=context, local_address=peer),
            base_url=self.address,
            headers={**NAVIGATION, **headers},
            timeout=PATIENCE_S,
        ) as client:
            yield client

    def begin(self, client: httpx2.Client, path: str = "/") -> str:
        """The address of the provider that a login leads to."""
        sent = client.get(path)
        assert sent.status_code == 303, sent.text
        return str(sent.headers["location"])

    def chosen(self, address: str, person: str) -> str:
        """Where the provider leads a browser back to, once somebody has said who they are."""
        assert self.provider
        query = urlsplit(address).query
        fields = {name: values[0] for name, values in parse_qs(query).items()}
        return self.provider.issue_code({**fields, "person": person})

    def log_in(self, client: httpx2.Client, person: str, path: str = "/") -> httpx2.Response:
        back = self.chosen(self.begin(client, path), person)
        return client.get(back, headers={"Sec-Fetch-Site": "cross-site"})


def log_in(page: Page, server: Server, person: str, path: str = "/") -> None:
    page.goto(server.address + path)
    page.get_by_role("link", name=person).click()
    page.wait_for_selector("#q")


def find_form_token(text: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', text)
    assert found
    return found[1]


def post(
    client: httpx2.Client, server: Server, path: str, headers: dict[str, str], **form: str
) -> httpx2.Response:
    sent = {"Origin": server.address, "Sec-Fetch-Site": "same-origin", **headers}
    kept = {name: value for name, value in sent.items() if value}
    return client.post(path, data=form, headers=kept)


@contextmanager
def logged_in(server: Server, person: str) -> Iterator[tuple[httpx2.Client, str]]:
    """A client with a session, and the token of its forms."""
    with server.http() as client:
        assert server.log_in(client, person).status_code == 200
        yield client, find_form_token(client.get("/").text)


@contextmanager
def server_with_provider() -> Iterator[Server]:
    """A server whose people log in at a provider of ours."""
    with ExitStack() as stack:
        place = stack.enter_context(new_place(SMALL))
        authority = Authority(place.base)
        provider = stack.enter_context(LoginProvider(authority))
        provider.people.update(PEOPLE)
        yield Server(place, provider, authority)


@contextmanager
def browser_context(browser: Browser) -> Iterator[BrowserContext]:
    """A new context, which accepts the server's certificate."""
    made = browser.new_context(ignore_https_errors=True)
    made.set_default_timeout(1000 * PATIENCE_S)
    yield made
    made.close()


def paste(server: Server, client: httpx2.Client, token: str, to: str = "/") -> httpx2.Response:
    return post(client, server, "/login", {}, token=token, to=to)
