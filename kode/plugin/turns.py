"""What a plug-in around the turns of a session needs."""

from kode.assembly import open_sandbox as open_sandbox
from kode.contracts import Opens as Opens
from kode.conversation.hooking import together as together
from kode.conversation.open_session import *  # noqa: F403
from kode.engine.fence import fence_text as fence_text
from kode.permissions.rules import *  # noqa: F403
from kode.session import unsent as unsent
