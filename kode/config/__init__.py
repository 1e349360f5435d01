"""Settings: their values, where those come from, and which provider they choose.

model.py the nested parts with their defaults layers.py defaults < own file < project file <
environment < flags, and the origin of each files.py a JSON file → values and the line of each key
choice.py which provider to ask, with which key
"""

from kode.config.choice import (
    LOCAL_KEY,
    ProviderChoice,
    configured,
    is_url,
    named_model,
    provider_for,
    resolve_provider,
    small_choice,
    switched,
)
from kode.config.layers import Faults, Loaded, load_config, project_file
from kode.config.model import (
    Config,
    Embedding,
    MemoryConfig,
    Permissions,
    ProviderPart,
    flat,
    given_prices,
    shown,
)

__all__ = [
    "LOCAL_KEY",
    "Config",
    "Embedding",
    "Faults",
    "Loaded",
    "MemoryConfig",
    "Permissions",
    "ProviderChoice",
    "ProviderPart",
    "configured",
    "flat",
    "given_prices",
    "is_url",
    "load_config",
    "named_model",
    "project_file",
    "provider_for",
    "resolve_provider",
    "shown",
    "small_choice",
    "switched",
]
