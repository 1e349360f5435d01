"""Commands: found by name, filled in, and held to what they allow."""

from kode.conversation import Conversation
from kode.extensions.definitions import pieces
from kode.messages import Text
from tests.extensions.found_extensions.conftest import Open, World, play
from tests.permissions.gates import NO, Person
from tests.tables import for_each


def filled(body: str, arguments: str) -> str:
    return "".join(f"<{one.text}>" if one.runs else one.text for one in pieces(body, arguments))


def instructions_of(conversation: Conversation) -> str:
    parts = conversation.session.messages[0].parts
    return next(p.text for p in parts if isinstance(p, Text) and p.source == "instructions")


@for_each(
    ("body", "arguments", "said"),
    [
        ("Fix $ARGUMENTS now", "12 high", "Fix 12 high now"),
        ("Fix $1, then $2 and $3.", "12 'so so'", "Fix 12, then so so and ."),
        ("Costs $10 and $HOME", "", "Costs $10 and $HOME"),
        ("Say $1", "don't panic", "Say don't"),
        ("Diff: !`git diff $1`!", "HEAD~1", "Diff: <git diff HEAD~1>!"),
        ("A wow!`is` no command", "", "A wow!`is` no command"),
        ("Say $1", "'!`rm x`'", "Say !`rm x`"),
        ("No place", "for this", "No place\n\nARGUMENTS: for this"),
    ],
)
def test_arguments_take_their_places(body: str, arguments: str, said: str) -> None:
    assert filled(body, arguments) == said


FIX = "---\nmodel: opus\n---\nFix $1 as in @notes.md, not @no.md, @.env"


async def test_its_text_goes_with_the_message_that_names_it(world: World, opened: Open) -> None:
    world.write("~/.claude/commands/git/fix.md", FIX)
    world.write(".env", "TOKEN=abcdef\n")
    world.write("notes.md", "Be brief.\n")
    conversation, _ = await play(opened, message="/fix 12")
    instructions = instructions_of(conversation)
    assert "Fix 12 as in @notes.md, not @no.md, @.env" in instructions
    assert "Be brief." in instructions
    assert "abcdef" not in str(conversation.session.messages)
    assert conversation.prompts() == ["/fix 12"]
    assert conversation.agent.provider.model == conversation.config.model
    assert any("asks for opus" in text for text in world.notices)


async def test_its_commands_are_asked_about_like_any_other(world: World, opened: Open) -> None:
    world.write("~/.claude/commands/send.md", "Sent: !`git push origin` !`echo fine`")
    person = Person(NO)
    conversation, _ = await play(opened, message="/send", ask=person)
    assert [question.subject for question in person.questions] == ["git push origin"]
    instructions = instructions_of(conversation)
    assert "person refused this" in instructions
    assert "fine\n[exit status 0]" in instructions


async def test_its_limits_hold_even_where_the_mode_allows_all(world: World, opened: Open) -> None:
    world.write(".claude/commands/look.md", "---\nallowed-tools: Bash(touch a:*)\n---\nLook @n.md")
    world.write("n.md", "what it attaches\n")
    world.approve()
    edit = {"name": "write_file", "arguments": {"path": "b.txt", "content": "b"}}
    look = {"name": "read_file", "arguments": {"path": "n.md"}}
    other = {"name": "shell", "arguments": {"command": "touch c"}}
    both = {"name": "shell", "arguments": {"command": "touch a && touch d"}}
    read = {"name": "shell", "arguments": {"command": "git status && ls"}}
    its_own = {"name": "shell", "arguments": {"command": "touch a"}}
    calls = [edit, look, other, both, its_own, read]
    replies = [{"calls": calls}, {"text": "done"}, {"calls": [edit]}, {"text": "done"}]
    conversation = await opened(*replies, mode="full")
    await conversation.turn("/look")

    assert "what it attaches" in instructions_of(conversation)
    assert {path.name for path in world.project.iterdir()} == {".git", ".claude", "a", "n.md"}
    refused = [event.text for event in world.finished if event.refused]
    assert len(refused) == 4, refused
    assert all("allows only shell(touch a:*)" in text for text in refused)
    await conversation.turn("and now?")
    assert (world.project / "b.txt").exists()

    # They allow nothing that would be asked about.
    world.write("~/.claude/commands/write.md", "---\nallowed-tools: Write, Bash\n---\nWrite")
    _, ended = await play(opened, edit, mode="ask", message="/write")
    assert [denial.tool for denial in ended.denials] == ["write_file"]
