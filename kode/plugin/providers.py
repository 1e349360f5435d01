"""The providers that kode knows, and their servers as they answer, for plug-ins that set one up."""

from kode.config.choice import ProviderChoice as ProviderChoice
from kode.config.choice import is_url as is_url
from kode.config.choice import resolve_provider as resolve_provider
from kode.config.model import Config as Config
from kode.providers.reach import Reached as Reached
from kode.providers.reach import reach as reach
