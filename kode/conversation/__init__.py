"""One process's agent with the session that is open now, for the prompt, `kode run`, servers and
programs: `open_conversation` opens one.

    settings       what it is opened with
    conversation   what it is
    sessions       how a session is opened, started and left
    turns          what goes with a message, and what runs around it
    rewind         undo, redo, and the ways back

Which classes its parts are is `assembly.py`'s business.
"""

from kode.conversation.conversation import Conversation, Settings, open_conversation

__all__ = ["Conversation", "Settings", "open_conversation"]
