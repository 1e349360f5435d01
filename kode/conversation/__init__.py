"""One process's agent with an open session. The faces talk only to a `Conversation`.

    opening        opens one
    conversation   what a face may ask of it
    sessions       what of it is on disk

It holds no policy of its own: only in which order things open, run and close. Which classes they
are is `assembly.py`'s business.
"""

from kode.conversation.conversation import Conversation, StatusLine
from kode.conversation.opening import open_conversation

__all__ = ["Conversation", "StatusLine", "open_conversation"]
