"""Estimates token counts without a tokenizer, well enough to plan with.

Exact counts come from the provider's usage; these fill the gap until the next one.
"""

from kode.messages import Image, Message, Part, Thinking, ToolCall
from kode.provider import ModelInfo

BYTES_PER_TOKEN = 4.0
"""English and code have 3.3 to 4.5 bytes per token in common tokenizers. Counting UTF-8 bytes, not
characters, also fits scripts with three bytes per character (about one token each)."""

MESSAGE_TOKENS = 6  # of a message beside its text: role, separators
PIXELS_PER_TOKEN = 750  # Anthropic's formula for images: width × height / 750
IMAGE_TOKENS = (85, 1_600)
"""The least and the most that an image costs: servers shrink larger ones."""
ROOM_TO_THINK = 4_000  # tokens to think with before a short answer: some cannot be told not to


def utf8_size(text: str) -> int:
    """The size in bytes: a character of some scripts takes as many tokens as three others."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def tokens_of_text(text: str) -> int:
    """Estimates the tokens of one text."""
    return int(utf8_size(text) / BYTES_PER_TOKEN) + 1 if text else 0


def tokens_of(message: Message) -> int:
    """Estimates the tokens of one message with all its parts."""
    return MESSAGE_TOKENS + sum(map(tokens_of_part, message.parts))


def tokens_of_part(part: Part) -> int:
    """Estimates the tokens of one part of a message; an image of unknown size has the maximum."""
    match part:
        case Thinking():
            return tokens_of_text(part.text) + tokens_of_text(part.signature)
        case ToolCall():
            return tokens_of_text(part.name) + tokens_of_text(part.arguments)
        case Image():
            least, most = IMAGE_TOKENS
            pixels = part.width * part.height
            return min(max(pixels // PIXELS_PER_TOKEN, least), most) if pixels else most
    return tokens_of_text(part.text)


def chars_of(tokens: float) -> int:
    """Converts tokens to characters by the same estimate; used to cut texts."""
    return int(tokens * BYTES_PER_TOKEN)


def clip_middle(text: str, max_chars: int) -> str:
    """Keeps both ends of a text longer than `max_chars`, and says how much is missing."""
    if len(text) <= max_chars:
        return text
    half = max(1, (max_chars - 60) // 2)
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[... {left_out} characters left out ...]\n{text[-half:]}"


def thinking_room(info: ModelInfo) -> int:
    """The tokens that this model may think before a short answer."""
    return ROOM_TO_THINK if info.efforts or info.thinking else 0
