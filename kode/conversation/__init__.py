"""One process's agent with the session that is open now, for the prompt, `kode run`, servers and
programs: `open_conversation` opens one. Which classes its parts are is `assembly.py`'s business."""

from kode.conversation.conversation import BareSession, Conversation, Settings, open_conversation

__all__ = ["BareSession", "Conversation", "Settings", "open_conversation"]
