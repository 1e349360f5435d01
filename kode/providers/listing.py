"""What all configured providers offer, for `/model`: each server's own list where it can be asked,
else the names in the config and those that kode knows.

The servers are asked side by side, within `PATIENCE_S` in total; an answer is kept for a while.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from kode.config.choice import ProviderChoice, configured, resolve_model, resolve_provider, switched
from kode.config.model import Config
from kode.errors import UserError
from kode.provider import Provider
from kode.providers.models import names_of
from kode.providers.server import is_near, offers_model, reach_server, url_of
from kode.registry import ProviderRow, provider_names, provider_row

PATIENCE_S = 3.0  # the person waits for the menu
FRESH_S = 600.0  # vendors add models every few weeks
NEAR_FRESH_S = 60.0
"""A server on one's own machine changes what it has at any time."""


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What one provider offers."""

    provider: str
    title: str
    models: tuple[str, ...]
    """Their names at this provider."""
    is_listed: bool = False
    """Whether they are its server's own list."""
    is_near: bool = False
    """Whether the server is on this machine or network: it has what it lists, and nothing else."""
    problem: str = ""
    """Why it cannot be used; "" if it can."""

    def lacks(self, model: str) -> bool:
        """Whether its server has said that it does not have a model, and the config does not name
        it."""
        return self.is_listed and not offers_model(self.models, model)


@dataclass
class Listing:
    """The lists of this process's servers."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _lists: dict[tuple[str, str], tuple[float, tuple[str, ...]]] = field(default_factory=dict)
    """Provider and URL → when it was asked, and its models."""

    def offers(self, config: Config, current: Provider, *, ask: bool = True) -> list[Offer]:
        """What each configured provider offers, the current one first. Without `ask` only servers
        on this machine are asked. Call it in a thread."""
        rows: dict[str, ProviderRow | None] = {current.name: provider_row(current.name)}
        rows |= {
            row.name: row for row in configured(config, self.environ) if row.apis != ("scripted",)
        }
        choices: dict[str, ProviderChoice | str] = {}
        for name in rows:
            try:
                is_current = name == current.name
                each = config if is_current else switched(config, self.environ, name, None)
                choices[name] = resolve_provider(each, self.environ)
            except UserError as error:
                choices[name] = str(error)
        usable = [choice for choice in choices.values() if isinstance(choice, ProviderChoice)]
        self._ask([choice for choice in usable if ask or is_near(url_of(choice))])
        offers = []
        for name, row in rows.items():
            part = config.providers.get(name)
            names = [current.model, *config.prices] if name == current.name else []
            names += [part.model] if part is not None and part.model else []
            offers.append(self._offer(name, row, choices[name], names))
        return offers

    def _offer(
        self, name: str, row: ProviderRow | None, choice: ProviderChoice | str, names: list[str]
    ) -> Offer:
        title = row.shown if row is not None else name
        if isinstance(choice, str):
            models = model_names(name, names) if row is not None else names
            return Offer(provider=name, title=title, models=tuple(models), problem=choice)
        server_list = self._lists.get(_key(choice), (0.0, ()))[1]
        default = [row.default_model] if row is not None and not server_list else []
        rest = _sort_models(row, server_list) if server_list else model_names(name, ())
        return Offer(
            provider=name,
            title=title,
            models=tuple(dict.fromkeys(filter(None, (*names, *default, *rest)))),
            is_listed=bool(server_list),
            is_near=is_near(url_of(choice)),
        )

    def _ask(self, choices: Sequence[ProviderChoice]) -> None:
        """Asks the servers whose answers are not fresh, side by side; one that does not answer in
        time is left to answer for the next time."""
        now = time.monotonic()
        due = [choice for choice in choices if url_of(choice) and not self._is_fresh(choice, now)]
        threads = [threading.Thread(target=self._note, args=(each,), daemon=True) for each in due]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, now + PATIENCE_S - time.monotonic()))

    def _note(self, choice: ProviderChoice) -> None:
        names = filter(str.isprintable, filter(None, reach_server(choice, PATIENCE_S).models))
        self._lists[_key(choice)] = (time.monotonic(), tuple(names))

    def _is_fresh(self, choice: ProviderChoice, now: float) -> bool:
        at, _ = self._lists.get(_key(choice), (float("-inf"), ()))
        return now - at < (NEAR_FRESH_S if is_near(url_of(choice)) else FRESH_S)


def _key(choice: ProviderChoice) -> tuple[str, str]:
    return choice.name, url_of(choice)


def _sort_models(row: ProviderRow | None, names: Sequence[str]) -> list[str]:
    """A server's list: of a vendor's own, only what is named like its language models, those that
    kode knows first."""
    if row is None or not row.models:
        return list(names)
    fitting = [name for name in names if name.startswith(row.models)] or list(names)
    first = [name for name in model_names(row.name, ()) if name in fitting]
    return list(dict.fromkeys((*first, *fitting)))


def model_names(provider: str | None, configured: Iterable[str]) -> list[str]:
    """The models to choose from for a provider (None: for all) without asking a server: those in
    the config, then those that kode knows for it."""
    vendors = provider_names() if provider is None else (provider,)
    table_names = [name for vendor in vendors for name in names_of(vendor, date.today())]
    return list(dict.fromkeys(name for name in (*configured, *table_names) if name))


def find_model(
    offers: Sequence[Offer],
    config: Config,
    current: ProviderRow,
    text: str,
    environ: Mapping[str, str] = os.environ,
) -> tuple[str, str]:
    """(provider, model) of what a person typed, `MODEL` or `PROVIDER/MODEL`. A name in the current
    provider's list is its own, then the lists of the others decide, then the name itself.

    Raises: UserError if several others have it.
    """
    by_name = {offer.provider: offer for offer in offers}
    if current.name in by_name and text in by_name[current.name].models:
        return current.name, text
    first, _, rest = text.partition("/")
    if rest and first in by_name and rest in by_name[first].models:
        return first, rest
    having = [offer.provider for offer in offers if offer.is_listed and text in offer.models]
    if len(having) > 1:
        full = ", ".join(f"{name}/{text}" for name in having)
        raise UserError(f"Several providers have {text}. Name one: {full}.")
    return (having[0], text) if having else resolve_model(config, environ, current, text)


def base_url_of(config: Config) -> str:
    """Where requests go, if not to the provider's own address; "" otherwise."""
    with contextlib.suppress(UserError):
        return resolve_provider(config, os.environ).base_url or ""
    return ""
