"""The web interface's actions on sources, documents and versions, with the rights of its user.

Each action is a form with the token of the session. The daemon checks the user's rights. Before an
action changes the configuration file, it asks the daemon to reload, which needs the same right.
"""

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from hopsyncd.client import RequestFailed, calls
from hopsyncd.client.local_files import map_local_sources
from hopsyncd.client.opening import find_target, make_editor_command
from hopsyncd.config.configuration import find_config_path, load_config
from hopsyncd.config.edit import add_source, ignore_document, remove_source
from hopsyncd.config.source_detection import detect_source
from hopsyncd.errors import BadRequest, Forbidden, NotFound
from hopsyncd.web.views import Shared, View, run_view

_DIFF_LINES = 50
# Editors that need a terminal. The page cannot open one.
_TERMINAL_EDITORS = {"vi", "vim", "nvim", "nano", "emacs", "micro", "kak", "joe", "hx", "helix"}
_OPENERS = ("xdg-open", "open")

Form = Mapping[str, str]


class ActionViews(View):
    """Performs the action of a form, and redirects to a view that confirms it."""

    name = "Sources"

    def __init__(self, shared: Shared, config_file: Path | None = None) -> None:
        super().__init__(shared)
        self._config_file = config_file
        self._actions: Mapping[str, Callable[[Form], Form]] = {
            "sync": self._sync,
            "accept": self._accept,
            "pause": self._pause,
            "resume": self._resume,
            "add": self._add,
            "remove": self._remove,
            "ignore": self._ignore,
            "open": self._open,
            "restore": self._restore,
            "release": self._release,
        }

    async def act(self, request: Request) -> Response:
        """Perform the action that the address names."""
        form = await self.read_form(request)
        if form is None:
            return self.refuse_form(request)
        return await self._act(request, form)

    @run_view
    def _act(self, request: Request, form: Form) -> Response:
        name: str = request.path_params["name"]
        action = self._actions.get(name)
        if action is None:
            raise RequestFailed(404, "not_found", f"There is no action {name}", "Reload the page")
        message = action(form)
        view = "/changes" if name == "restore" else "/sources"
        if name == "open":
            view = f"/passage/{form.get('id', '')}"
        return self.redirect(f"{view}?{urlencode({'done': name, **message})}")

    def _sync(self, form: Form) -> Form:
        source = form.get("source", "")
        self.client.send(calls.start_sync([source] if source else []))
        return {"source": source or "all sources"}

    def _accept(self, form: Form) -> Form:
        self.client.sync([_require(form, "source")], accept_empty=True)
        return {"source": form["source"]}

    def _pause(self, form: Form) -> Form:
        self.client.pause(_require(form, "source"))
        return {"source": form["source"]}

    def _resume(self, form: Form) -> Form:
        self.client.resume(_require(form, "source"))
        return {"source": form["source"]}

    def _require_own_daemon(self) -> None:
        """Raise Forbidden if the daemon may be on another machine, where its configuration file
        cannot be changed."""
        if self.client.is_remote:
            raise Forbidden(
                "Cannot change the configuration",
                "the configuration file is on the server, which is another machine",
                "Ask the administrator of the server to make the change",
            )

    def _add(self, form: Form) -> Form:
        self._require_own_daemon()
        place = _require(form, "place").strip()
        self.client.reload()
        source = detect_source(place)
        name, _ = add_source(
            find_config_path(self._config_file), source.keys, form.get("name") or None
        )
        self.client.reload()
        return {"source": name}

    def _remove(self, form: Form) -> Form:
        self._require_own_daemon()
        source = _require(form, "source")
        self.client.reload()
        remove_source(find_config_path(self._config_file), source)
        self.client.remove(source)
        self.client.reload()
        return {"source": source}

    def _ignore(self, form: Form) -> Form:
        self._require_own_daemon()
        source, document = _require(form, "source"), _require(form, "document")
        self.client.reload()
        ignore_document(find_config_path(self._config_file), source, document)
        self.client.reload()
        self.client.send(calls.start_sync([source]))
        return {"document": document}

    def _open(self, form: Form) -> Form:
        if self.shared.user:
            raise Forbidden(
                "Cannot open the document in a program",
                "the server is another computer, which cannot start programs on yours",
                "Read the document in the browser",
            )
        passage = self.client.passage(_require(form, "id"))["passage"]
        if not passage["document"]:
            raise NotFound(
                "Cannot open the document",
                "no document contains this passage any more",
                "Read the text at the older version, or ask again",
            )
        sources = map_local_sources(self.client)
        target, is_text = find_target(passage, sources)
        line = passage["lines"][0] if passage["lines"] else 1
        editor = load_config(self._config_file).open.editor
        command = make_editor_command(editor, target, line) if is_text else None
        start_program(command, target)
        return {"document": str(passage["document"])}

    def _restore(self, form: Form) -> Form:
        answer = self.client.restore(_require(form, "version"))
        return {"version": str(answer["restored"])}

    def _release(self, form: Form) -> Form:
        self.client.release([form["source"]] if form.get("source") else [])
        return {}

    @run_view
    def preview_restore(self, request: Request) -> Response:
        """Show the effect of restoring a version, and a button to restore it."""
        number: int = request.path_params["number"]
        diff = self.client.diff("head", str(number), _DIFF_LINES, graph=False)
        return self.render_page(request, "restore.html", view="Changes", number=number, diff=diff)


def start_program(command: list[str] | None, target: str) -> None:
    """Start a program that opens the target: `command`, or the system's program for it.

    Does not wait until the program ends. Raises NotFound if no program can open the target, or if
    `command` is an editor that needs a terminal.
    """
    import shutil

    if command is None or "://" in command[0]:
        opener = next(filter(shutil.which, _OPENERS), None)
        if opener is None:
            raise NotFound(
                f"Cannot open {target}",
                "this machine has no program that opens files",
                'Set `editor` under [open] in the configuration, such as "code"',
            )
        command = [opener, command[0] if command else target]
    elif Path(command[0]).name in _TERMINAL_EDITORS:
        raise NotFound(
            f"Cannot open {target}",
            f"{Path(command[0]).name} needs a terminal",
            'Run `hopsyncd open` in a terminal, or set `editor` under [open], such as "code"',
        )
    subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _require(form: Form, name: str) -> str:
    """Return the field `name` of a form. Raises BadRequest if the field is empty."""
    if not form.get(name, "").strip():
        raise BadRequest("The form was refused", f"{name} is empty", "Fill it in")
    return form[name]
