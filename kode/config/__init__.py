"""Settings: their values, where those come from, and which provider they choose.

model.py    the nested parts with their defaults
load.py     defaults < own file < project file < environment < flags, and the origin of each
files.py    config files; the folder of the person's own
foreign.py  settings files of other agents
choice.py   which provider to ask, with which key
"""

from kode.config.choice import LOCAL_KEY as LOCAL_KEY
from kode.config.choice import ProviderChoice as ProviderChoice
from kode.config.choice import configured as configured
from kode.config.choice import is_url as is_url
from kode.config.choice import named_model as named_model
from kode.config.choice import provider_for as provider_for
from kode.config.choice import resolve_provider as resolve_provider
from kode.config.choice import small_choice as small_choice
from kode.config.choice import switched as switched
from kode.config.load import Faults as Faults
from kode.config.load import Loaded as Loaded
from kode.config.load import load_config as load_config
from kode.config.load import project_file as project_file
from kode.config.model import Config as Config
from kode.config.model import Embedding as Embedding
from kode.config.model import MemoryConfig as MemoryConfig
from kode.config.model import ProviderPart as ProviderPart
from kode.config.model import flat as flat
from kode.config.model import given_prices as given_prices
from kode.config.model import shown as shown
