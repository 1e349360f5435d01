"""One process's agent with an open session. The faces talk only to a `Conversation`.

    opening        opens one
    conversation   what a face may ask of it: a facade over the functions of the others
    open_session   the state that they work on
    starting       what a session begins with; turns what it does; leaving how it ends
    sessions       what of it is on disk

It holds no policy of its own: only in which order things open, run and close. Which classes they
are is `assembly.py`'s business.
"""

from kode.conversation.conversation import Conversation
from kode.conversation.figures import StatusLine
from kode.conversation.open_session import ClosingStep
from kode.conversation.opening import open_conversation

__all__ = ["ClosingStep", "Conversation", "StatusLine", "open_conversation"]
