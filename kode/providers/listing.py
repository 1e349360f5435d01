"""What all configured providers offer, for `/model`: each one's own list where it can be asked,
else the names in the config and those that kode knows.

The providers are asked side by side, within `PATIENCE_S` in total; an answer is kept for a while.
"""

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kode.config.choice import ProviderChoice, configured, named_model, resolve_provider, switched
from kode.config.model import Config
from kode.errors import UserError
from kode.provider import Provider
from kode.providers.offered import model_names, offers
from kode.providers.reach import reach, url_of
from kode.providers.served import is_near
from kode.registry import ProviderRow, provider_row

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
    asked: bool = False
    """Whether they are its server's own list."""
    near: bool = False
    """Whether the server is on this machine or network: it has what it lists, and nothing else."""
    problem: str = ""
    """Why it cannot be used; "" if it can."""


@dataclass
class Listing:
    """The lists of this process's servers."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _known: dict[tuple[str, str], tuple[float, tuple[str, ...]]] = field(default_factory=dict)

    def offers(self, config: Config, current: Provider, *, ask: bool = True) -> list[Offer]:
        """What each configured provider offers, the current one first. Without `ask` only servers
        on this machine are asked. Call it in a thread."""
        rows = {row.name: row for row in configured(config, self.environ) if _is_listed(row)}
        own = rows.pop(current.name, None) or provider_row(current.name)
        named = [current.name, *rows]
        choices = {name: self._choice(config, name, current) for name in named}
        usable = [one for one in choices.values() if isinstance(one, ProviderChoice)]
        self._ask([one for one in usable if ask or is_near(url_of(one))])
        found = []
        for name in named:
            row, choice = own if name == current.name else rows[name], choices[name]
            part = config.providers.get(name)
            names = [current.model, *config.prices] if name == current.name else []
            names += [part.model] if part is not None and part.model else []
            found.append(self._offer(name, row, choice, names))
        return found

    def _choice(self, config: Config, name: str, current: Provider) -> ProviderChoice | str:
        """How to ask a provider, or why it cannot be asked."""
        try:
            if name != current.name:
                config = switched(config, self.environ, name, None)
            return resolve_provider(config, self.environ)
        except UserError as error:
            return str(error)

    def _offer(
        self, name: str, row: ProviderRow | None, choice: ProviderChoice | str, named: list[str]
    ) -> Offer:
        title = row.shown if row is not None else name
        if isinstance(choice, str):
            known = model_names(name, named) if row is not None else named
            return Offer(provider=name, title=title, models=tuple(known), problem=choice)
        near = is_near(url_of(choice))
        listed = self._known.get(_key(choice), (0.0, ()))[1]
        if listed:
            models = dict.fromkeys((*named, *_sorted(row, listed)))
        else:
            default = [row.default_model] if row is not None and row.default_model else []
            models = dict.fromkeys((*named, *default, *model_names(name, ())))
        return Offer(
            provider=name, title=title, models=tuple(models), asked=bool(listed), near=near
        )

    def _ask(self, choices: Sequence[ProviderChoice]) -> None:
        """Asks the servers whose answers are not fresh, side by side; one that does not answer in
        time is left to answer for the next time."""
        now = time.monotonic()
        due = [choice for choice in choices if url_of(choice) and not self._is_fresh(choice, now)]
        if not due:
            return
        asking = [threading.Thread(target=self._note, args=(one,), daemon=True) for one in due]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join(max(0.0, now + PATIENCE_S - time.monotonic()))

    def _note(self, choice: ProviderChoice) -> None:
        reached = reach(choice, PATIENCE_S)
        names = tuple(name for name in reached.models if name and name.isprintable())
        self._known[_key(choice)] = (time.monotonic(), names)

    def _is_fresh(self, choice: ProviderChoice, now: float) -> bool:
        at, _ = self._known.get(_key(choice), (float("-inf"), ()))
        return now - at < (NEAR_FRESH_S if is_near(url_of(choice)) else FRESH_S)


def _key(choice: ProviderChoice) -> tuple[str, str]:
    return choice.name, url_of(choice)


def _is_listed(row: ProviderRow) -> bool:
    return row.apis != ("scripted",)


def _sorted(row: ProviderRow | None, listed: Sequence[str]) -> list[str]:
    """A server's list: of a vendor's own, only what is named like its language models, those that
    kode knows first."""
    if row is None or not row.models:
        return list(listed)
    fitting = [name for name in listed if name.startswith(row.models)] or list(listed)
    known = [name for name in model_names(row.name, ()) if name in fitting]
    return [*known, *(name for name in fitting if name not in known)]


def find(
    offered: Sequence[Offer],
    config: Config,
    current: ProviderRow,
    text: str,
    environ: Mapping[str, str] = os.environ,
) -> tuple[str, str]:
    """(provider, model) of what a person typed, `MODEL` or `PROVIDER/MODEL`. A name in the current
    provider's list is its own, then the lists of the others decide, then the name itself.

    Raises: UserError if several others have it.
    """
    by_name = {offer.provider: offer for offer in offered}
    own = by_name.get(current.name)
    if own is not None and text in own.models:
        return current.name, text
    first, _, rest = text.partition("/")
    if rest and first in by_name and rest in by_name[first].models:
        return first, rest
    having = [offer for offer in offered if offer.asked and text in offer.models]
    if len(having) > 1:
        full = ", ".join(f"{offer.provider}/{text}" for offer in having)
        raise UserError(f"Several providers have {text}. Name one: {full}.")
    if having:
        return having[0].provider, text
    return named_model(config, environ, current, text)


def lacks(offer: Offer | None, model: str) -> bool:
    """Whether a server has said that it does not have a model, and the config does not name it."""
    return offer is not None and offer.asked and not offers(offer.models, model)
