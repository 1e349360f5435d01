"""A model that knows only what it was sent: it saves what it is to remember with the tools of
whichever memory is there, looks up what it does not see, and answers `unknown` where it finds
nothing. So the harness and memory can be tried without a model.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

MODEL = "scripted"

_SENTENCE = re.compile(r"[Tt]he ([a-z ]+ of the [a-z ]+?) is ([a-z]+)\b")
_KNOWN = re.compile(rf"(?m)^(\d+)\. .*?{_SENTENCE.pattern}")
_USER = re.compile(r"(?m)^User: (.*)$")
_MONTH_FILE = re.compile(r"memory_append to\s+(\S+):")
FACTS_FILE = "facts/project.md"

Reply = dict[str, Any]


def answer(request: dict[str, Any]) -> Reply:
    """The reply to a request, from its messages and the tools it offers."""
    tools = {tool["function"]["name"] for tool in request.get("tools", ())}
    messages = [(message["role"], _text(message)) for message in request["messages"]]
    sent = "\n".join(text for _, text in messages)
    if not tools & {"read_file", "shell"}:
        return _memory_asks(tools, messages, sent)
    person = max(n for n, (role, _) in enumerate(messages) if role == "user")
    done = sum(role == "tool" for role, _ in messages[person:])
    said = messages[person][1].rpartition("</memory>")[2]
    if asked := re.search(r"What is the (.+?)\?", said):
        thing = asked[1]
        if value := _known(thing, sent):
            return {"text": value}
        calls = _looking_up(tools, thing)
        return {"calls": [calls[done]]} if done < len(calls) else {"text": "unknown"}
    if "emember" in said:
        calls = _saving(tools, said, sent)
        return {"calls": [calls[done]]} if done < len(calls) else {"text": "Noted."}
    if said.startswith("Read README.md") and not done:
        return {"calls": [_call("read_file", path="README.md")]}
    return {"text": "All right."}


def _known(thing: str, text: str) -> str:
    """What was said last of a thing; "" for nothing."""
    return next((v for t, v in reversed(_SENTENCE.findall(text)) if t == thing), "")


def _saving(tools: set[str], said: str, sent: str) -> list[Reply]:
    """The calls that keep what was said, in place of what was known before."""
    (thing, value), *_ = _SENTENCE.findall(said)
    fact = f"The {thing} is {value}."
    changed = "instead of" in said
    before = [v for t, v in _SENTENCE.findall(sent) if t == thing and v != value]
    old = f"The {thing} is {before[-1]}." if before else ""
    if "memory" in tools:
        where = {"target": "env", "content": fact}
        if changed and old:
            return [_call("memory", action="replace", old_text=old, **where)]
        return [_call("memory", action="add", **where)]
    if "memory_append" in tools:
        if not changed:
            return [_call("memory_append", path=FACTS_FILE, entry=f"- {fact}")]
        patch = {"oldText": old, "newText": fact}
        return [_call("memory_read", path=FACTS_FILE),
                _call("memory_patch", path=FACTS_FILE, patches=[patch])]  # fmt: skip
    if "remember" in tools:
        found = re.findall(rf"\[([0-9a-f]{{16}})\][^\[]*{thing} is", sent)
        if not changed:
            return [_call("remember", content=fact)]
        update = _call("update_memory", id=found[-1] if found else "", content=fact)
        return [_call("recall", query=thing), update]
    return []


def _looking_up(tools: set[str], thing: str) -> list[Reply]:
    if "memory" in tools:
        return [_call("memory", action="search", query=thing)]
    if "memory_read" in tools:
        return [_call("memory_read", path=FACTS_FILE)]
    if "recall" in tools:
        return [_call("recall", query=thing)]
    return [_call("history_search", query=thing)] if "history_search" in tools else []


def _memory_asks(tools: set[str], messages: list[tuple[str, str]], sent: str) -> Reply:
    """The answers to memory's own questions: what a session brought, in the form it wants."""
    newest: dict[str, str] = dict(_SENTENCE.findall(sent))
    facts = [f"The {thing} is {value}." for thing, value in newest.items()]
    if "memory_append" in tools:
        month = _MONTH_FILE.search(sent)
        if not facts or not month or messages[-1][0] == "tool":
            return {"text": "nothing"}
        entry = f"## A talk\n- Summary: {facts[-1]}"
        return {"calls": [_call("memory_append", path=month[1], entry=entry)]}
    if "narrative" in sent:
        return {"text": json.dumps(_noted(sent))}
    if "one word" in sent and "transcript" not in sent:
        return {"text": "add"}
    return {"text": " ".join(facts) or "nothing"}


def _noted(sent: str) -> dict[str, Any]:
    """The note of a session, and the facts that the person stated in it, each with the known line
    of the same thing that it repeats or changes."""
    head, _, transcript = sent.partition("The transcript of")
    known = {thing: (value, int(n)) for n, thing, value in _KNOWN.findall(head)}
    facts = []
    for words in _USER.findall(transcript):
        for thing, value in _SENTENCE.findall(words):
            before, line = known.get(thing, ("", 0))
            how = "repeats" if value == before else "changes" if line else "new"
            row = {"fact": f"The {thing} is {value}.", "words": words, "how": how, "line": line}
            facts.append(row)
    return {"narrative": " ".join(row["fact"] for row in facts) or "A talk.", "facts": facts}


def _call(name: str, **arguments: Any) -> Reply:
    return {"name": name, "arguments": arguments}


def _text(message: dict[str, Any]) -> str:
    return "\n".join(_pieces(message.get("content")))


def _pieces(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]
