"""The model that memory asks by itself: a judge that knows what is about the same thing, and is
wrong at a stated rate; a writer of notes that puts down what was said, page or person.

Its prompts are distinguished by the system text that memory gives with them.
"""

import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bench.life.reader import facts_in
from bench.life.story import Fact, target_of
from kode.memory.question import INSTRUCTIONS as EPISODE
from kode.messages import Message, Text, text_of
from kode.provider import Request

ANSWER = "Answer: "
"""Begins what the agent answers to a question; it is no news."""
READ = "In the code: "
NEWS = ("told", "read")

_FORGET = re.compile(r"Please forget the (\w+) of ([\w ]+)\.")
_UNTIL = re.compile(r"Until (\d{4}-\d\d-\d\d)")
_STORED = re.compile(r"(?m)^Stored fact(?: \d+)?: (.*)$")
_NEW = re.compile(r"(?m)^New fact: (.*)$")
_USER = re.compile(r"(?m)^User: (.*)$")


class Mind:
    def __init__(self, facts: Mapping[str, Fact], error_rate: float, seed: int = 1) -> None:
        self._facts = facts
        self._error_rate = error_rate
        self._rng = random.Random(seed)
        self.calls = 0

    async def ask(self, system: str, prompt: str, max_output_tokens: int) -> str:
        self.calls += 1
        if system == EPISODE:
            return json.dumps(self._write_note(prompt))
        return self._judge(prompt)

    async def reply(self, request: Request) -> Message:
        prompt = "\n".join(map(text_of, request.messages))
        if request.tools:
            self.calls += 1
            text = self.reflect(prompt)
        else:
            text = await self.ask(request.system, prompt, request.max_output_tokens or 0)
        return Message(role="assistant", parts=(Text(text=text),), stop="end")

    def reflect(self, prompt: str) -> str:
        """A reflector's last answer: what was written is enough, and what the lines do."""
        return json.dumps(self._relate_lines(self._parse_known(prompt)))

    # ── the judge ────────────────────────────────────────────────────────────────────────────

    def _is_wrong(self) -> bool:
        return self._rng.random() < self._error_rate

    def _judge(self, prompt: str) -> str:
        stored = [facts_in(text, self._facts) for text in _STORED.findall(prompt)]
        new = [fact for text in _NEW.findall(prompt) for fact in facts_in(text, self._facts)]
        word, number = "distinct", 1
        for at, facts in enumerate(stored, 1):
            # An entry that says more than the new fact is not outdated by it as a whole.
            if len(facts) == len(new) == 1 and facts[0].key == new[0].key:
                word, number = ("same" if facts[0] == new[0] else "update"), at
                break
        if self._is_wrong():
            word = self._rng.choice([w for w in ("same", "update", "distinct") if w != word])
        return word if word == "distinct" or len(stored) < 2 else f"{word}-{number}"

    # ── the writer of notes ──────────────────────────────────────────────────────────────────

    def _list_said(self, transcript: str) -> list[tuple[str, Fact]]:
        """How each fact came into a conversation, and the fact."""
        pairs = []
        for line in re.findall(r"(?m)^(?:User|Assistant): .*$", transcript):
            how = "answered" if ANSWER in line else "read" if READ in line else "told"
            until = _UNTIL.search(line)
            for fact in facts_in(line, self._facts):
                if not (until and how != "told"):
                    pairs.append((how, fact))
        return list(dict.fromkeys(pairs))

    def _narrative(self, transcript: str) -> str:
        """What a note says: the work, what was said and read. What was answered from memory it
        leaves out, as memory asks it to."""
        work = re.findall(r"(?m)^User: ((?:\w+ )+the [\w ]+ of \w+)", transcript)
        parts = [f"Worked on: {', '.join(work)}."] if work else []
        words = {"told": "The user said: ", "read": READ}
        for how, fact in self._list_said(transcript):
            if how in NEWS and not fact.until:
                parts.append(f"{words[how]}{fact.text}.")
        return " ".join(parts) or "Questions."

    def _write_note(self, prompt: str) -> dict[str, Any]:
        """The note, what was told with the words that told it, and lines about the same thing."""
        transcript = prompt.partition("The transcript of")[2]
        known = self._parse_known(prompt)
        facts, lines = [], list(known)
        for fact in (
            fact for how, fact in self._list_said(transcript) if how in NEWS and not fact.until
        ):
            words = next(
                (w for w in _USER.findall(transcript) if fact in facts_in(w, self._facts)), ""
            )
            about = "user" if target_of(fact) == "user" else "project"
            is_stated = bool(words) and not words.rstrip().endswith("?")
            row = {"fact": fact.text, "stated": is_stated, "quote": words, "about": about}
            facts.append(row | {"source": fact.source or ""})
            lines.append(([fact], len(lines) + 1))
        forgotten = [
            {"line": number, "quote": words}
            for words in _USER.findall(transcript)
            for about, subject in _FORGET.findall(words)
            for held, number in known
            if (subject, about) in {fact.key for fact in held} and not self._is_wrong()
        ]
        note = {"narrative": self._narrative(transcript), "facts": facts}
        return note | self._relate_lines(lines) | {"withdrawn": forgotten}

    def _parse_known(self, prompt: str) -> list[tuple[list[Fact], int]]:
        """The known lines of a prompt, as the facts they state, each with its number."""
        head = prompt.partition("The transcript of")[0]
        lines = re.findall(r"(?m)^(\d+)\. (.*)$", head)
        return [(facts_in(text, self._facts), int(number)) for number, text in lines]

    def _relate_lines(self, known: Sequence[tuple[Sequence[Fact], int]]) -> dict[str, Any]:
        """The groups and pairs of lines about the same thing; a later line is taken for newer."""
        same, outdated = [], []
        for at, (new, number) in enumerate(known):
            for held, other in known[:at]:
                if len(held) == len(new) == 1 and held[0].key == new[0].key:
                    if self._is_wrong():
                        continue
                    if held[0] == new[0]:
                        same.append([other, number])
                    else:
                        outdated.append({"line": other, "by": number})
        return {"same": same, "outdated": outdated}
