"""What `kode view` shows of goals: on the page of a session, each with its attempts."""

from collections.abc import Mapping

from kode.plugin import Page, Place, read_session, session_path
from kode.plugin.entries import PluginEntry
from kode.plugins.goals.state import TYPE, goals_of


def goals(place: Place, query: Mapping[str, str]) -> tuple[str, Mapping[str, object]]:
    """The goals of a session. Raises: SessionError, StorageError."""
    _, entries, _ = read_session(session_path(place.home, query["id"]))
    own = [one.value for one in entries if isinstance(one, PluginEntry) and one.type == TYPE]
    return "goals.html", {"goals": goals_of(own)}


PAGES = (Page(path="/sessions/{id}/goals", show=goals),)
