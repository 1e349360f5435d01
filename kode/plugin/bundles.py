"""The readers of a session's skills, commands, agents, hooks and servers, for plug-ins that look at
them before they are used."""

from kode.extensions import mcp_cache as mcp_cache
from kode.extensions.agents import read_agent as read_agent
from kode.extensions.brought import Thing as Thing
from kode.extensions.commands import read_command as read_command
from kode.extensions.hooks import hooks_of_bundles as hooks_of_bundles
from kode.extensions.mcp_config import servers_of as servers_of
from kode.extensions.places import PLUGIN_ROOT as PLUGIN_ROOT
from kode.extensions.places import Surroundings as Surroundings
from kode.extensions.places import parts as parts
from kode.extensions.places import read_each as read_each
from kode.extensions.skills import read_skill as read_skill
from kode.extensions.trust import Item as Item
from kode.extensions.trust import load as load
from kode.extensions.trust import revoke as revoke
from kode.installed import subcommands as subcommands
