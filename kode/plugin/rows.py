"""The rows of providers, for plug-ins that set one up before anything heavy is imported."""

from kode.cli.screen.lines import fold as fold
from kode.installed import command as command
from kode.registry import PROVIDERS as PROVIDERS
from kode.registry import ProviderRow as ProviderRow
from kode.registry import owner_of_key as owner_of_key
from kode.registry import provider_row as provider_row
from kode.registry import row_with_address as row_with_address
