"""What a plug-in needs that starts subagents, or adds a tool to a session that has begun."""

from kode.conversation.structured import form_of_schema as form_of_schema
from kode.session.masking import masked as masked
from kode.session.requests import tool_object as tool_object
from kode.subagents.parent import prepare as prepare
from kode.subagents.parent import run_children as run_children
from kode.subagents.protocol import Task as Task
from kode.subagents.records import continued as continued
