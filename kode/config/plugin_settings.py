"""The settings of a plug-in: its section of the config, checked by the plug-in's own model."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from kode import installed
from kode.config.faults import must_be
from kode.errors import ConfigError
from kode.installed import Plugin


def settings_of(plugin: Plugin, section: Mapping[str, Any]) -> Any:
    """An instance of the plug-in's settings model; None if it has none.

    Raises: ConfigError that names the key and what is allowed.
    """
    given = {key: value for key, value in section.items() if key != "enabled"}
    if not plugin.settings:
        if given:
            raise ConfigError(
                f"`{installed.SECTION}.{plugin.name}.{next(iter(given))}`: the plug-in "
                f"{plugin.name} has no settings. Remove the key."
            )
        return None
    model = installed.load(plugin, plugin.settings)
    try:
        return model.model_validate_json(json.dumps(given), strict=True)
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join((installed.SECTION, plugin.name, *map(str, fault["loc"])))
        if fault["type"] == "extra_forbidden":
            allowed = ", ".join(model.model_fields) or "none"
            raise ConfigError(f"There is no key `{key}`. Allowed: {allowed}.") from None
        if fault["type"] == "missing":
            raise ConfigError(f"`{key}` is missing. Add it to your config.") from None
        raise ConfigError(f"`{key}` must be {must_be([fault])}.") from None
