"""How many tokens a text is, near enough to plan with and without a tokenizer.

Exact counts come from the provider's usage; these fill the gap until the next one.
"""

from kode.messages import Image, Message, Text, Thinking, ToolCall, ToolResult

BYTES_PER_TOKEN = 4.0
"""English and code lie between 3.3 and 4.5 bytes a token in the common tokenizers. Counting UTF-8
bytes rather than characters makes scripts of three bytes a character (about one token each)
come out near the truth too."""

MESSAGE_TOKENS = 6
"""What a message costs beside its text: role, separators."""


PIXELS_PER_TOKEN = 750
IMAGE_TOKENS = (85, 1_600)
"""The least and the most that a picture costs: servers make larger ones smaller first."""


def tokens_of_text(text: str) -> int:
    """An estimate for one text."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return int(size / BYTES_PER_TOKEN) + 1 if text else 0


def tokens_of(message: Message) -> int:
    """An estimate for one message with all its parts."""
    total = MESSAGE_TOKENS
    for part in message.parts:
        match part:
            case Text():
                total += tokens_of_text(part.text)
            case Thinking():
                total += tokens_of_text(part.text) + tokens_of_text(part.signature)
            case ToolCall():
                total += tokens_of_text(part.name) + tokens_of_text(part.arguments)
            case ToolResult():
                total += tokens_of_text(part.text)
            case Image():
                total += tokens_of_image(part)
    return total


def tokens_of_image(image: Image) -> int:
    """An estimate for one picture; the most where its size is not known."""
    least, most = IMAGE_TOKENS
    pixels = image.width * image.height
    return min(max(pixels // PIXELS_PER_TOKEN, least), most) if pixels else most


def chars_of(tokens: float) -> int:
    """How many characters so many tokens are, by the same estimate; for texts to cut."""
    return int(tokens * BYTES_PER_TOKEN)


def clip_middle(text: str, max_chars: int) -> str:
    """Keeps both ends of a text that is longer than `max_chars`, saying how much is missing."""
    if len(text) <= max_chars:
        return text
    half = max(1, (max_chars - 60) // 2)
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[... {left_out} characters left out ...]\n{text[-half:]}"
