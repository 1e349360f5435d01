"""Commands: found by name, filled in, and held to what they allow."""

import pytest

from kode.events import Event, Notice, ToolFinished
from kode.extensions.commands import pieces
from kode.extensions.found_extensions import in_use
from kode.messages import Text
from kode.permissions.question import Answer, Question
from tests.extensions.found_extensions.conftest import Open, World
from tests.tables import for_each


def filled(body: str, arguments: str) -> str:
    return "".join(f"<{one.text}>" if one.runs else one.text for one in pieces(body, arguments))


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


def test_folders_join_the_name_and_the_head_describes_it(world: World) -> None:
    world.write(
        ".claude/commands/git/review.md",
        "---\ndescription: Reviews\nargument-hint: [number]\nallowed-tools: Bash(git log:*), Read\n"
        "---\nReview it",
    )
    world.approve()

    (command,) = in_use(world.find().commands)

    assert command.item.name == "git:review"
    assert (command.description, command.argument_hint) == ("Reviews", "number")
    assert command.allowed == ("shell(git log:*)", "read")


async def test_its_text_goes_with_the_message_that_names_it(world: World, opened: Open) -> None:
    world.write("~/.claude/commands/git/fix.md", "Fix issue $1 as in @notes.md, not @missing.md.")
    world.write("notes.md", "Be brief.\n")
    conversation = await opened({"text": "done"})

    await conversation.turn("/fix 12")

    parts = [part for part in conversation.session.messages[0].parts if isinstance(part, Text)]
    instructions = next(part.text for part in parts if part.source == "instructions")
    assert "Fix issue 12 as in @notes.md, not @missing.md." in instructions
    assert "Be brief." in instructions
    assert conversation.prompts() == ["/fix 12"]


async def test_a_file_with_keys_does_not_go_along_unasked(world: World, opened: Open) -> None:
    world.write("~/.claude/commands/fix.md", "Look at @.env")
    world.write(".env", "TOKEN=abcdef\n")
    conversation = await opened({"text": "done"})

    await conversation.turn("/fix")

    assert "abcdef" not in str(conversation.session.messages)


async def test_its_commands_are_asked_about_like_any_other(world: World, opened: Open) -> None:
    world.write("~/.claude/commands/send.md", "Sent: !`git push origin` !`echo fine`")
    asked: list[str] = []

    async def ask(question: Question) -> Answer:
        asked.append(question.subject)
        return Answer(choice="no")

    conversation = await opened({"text": "done"}, ask=ask)

    await conversation.turn("/send")

    assert asked == ["git push origin"]
    (instructions,) = [
        part.text
        for part in conversation.session.messages[0].parts
        if isinstance(part, Text) and part.source == "instructions"
    ]
    assert "Sent: The person refused this." in instructions
    assert "fine\n[exit status 0]" in instructions


async def test_its_limits_hold_even_where_the_mode_allows_all(
    world: World, opened: Open, events: list[Event]
) -> None:
    world.write("~/.claude/commands/look.md", "---\nallowed-tools: Bash(touch a:*)\n---\nLook")
    edit = {"name": "write_file", "arguments": {"path": "b.txt", "content": "b"}}
    other = {"name": "shell", "arguments": {"command": "touch c"}}
    both = {"name": "shell", "arguments": {"command": "touch a && touch d"}}
    read = {"name": "shell", "arguments": {"command": "git status && ls"}}
    its_own = {"name": "shell", "arguments": {"command": "touch a"}}
    conversation = await opened(
        {"calls": [edit, other, both, its_own, read]},
        {"text": "done"},
        {"calls": [edit]},
        {"text": "done"},
        mode="full",
    )

    await conversation.turn("/look")

    assert sorted(path.name for path in world.project.iterdir()) == [".git", "a"]
    refused = [event.text for event in events if isinstance(event, ToolFinished) if event.refused]
    assert len(refused) == 3, refused
    assert all("allows only shell(touch a:*)" in text for text in refused)
    await conversation.turn("and now?")
    assert (world.project / "b.txt").exists()


async def test_its_limits_allow_nothing_that_would_be_asked_about(
    world: World, opened: Open
) -> None:
    world.write("~/.claude/commands/write.md", "---\nallowed-tools: Write, Bash\n---\nWrite")
    edit = {"name": "write_file", "arguments": {"path": "b.txt", "content": "b"}}
    conversation = await opened({"calls": [edit]}, {"text": "done"}, mode="ask")

    ended = await conversation.turn("/write")

    assert not (world.project / "b.txt").exists()
    assert [denial.tool for denial in ended.denials] == ["write_file"]


async def test_its_model_serves_its_turn_unless_it_is_unknown(
    world: World, opened: Open, events: list[Event]
) -> None:
    world.write("~/.claude/commands/x.md", "---\nmodel: opus\n---\nDo it")
    conversation = await opened({"text": "done"})
    model = conversation.agent.provider.model

    await conversation.turn("/x")

    assert conversation.agent.provider.model == model
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert any("asks for opus, which kode does not know" in text for text in notices)


async def test_one_that_is_not_approved_is_an_ordinary_message(world: World, opened: Open) -> None:
    world.write(".claude/commands/x.md", "Run !`touch effect`")
    conversation = await opened({"text": "done"}, mode="full")

    await conversation.turn("/x")

    assert not (world.project / "effect").exists()
    sources = [part.source for part in conversation.session.messages[0].parts]
    assert sources == ["opening", ""]


@pytest.mark.parametrize("kind", ["commands", "agents"])
def test_a_link_out_of_the_folder_is_not_read(world: World, kind: str) -> None:
    world.write("id_rsa.md", "---\ndescription: d\n---\nPRIVATE\n")
    folder = world.project / ".claude" / kind
    folder.mkdir(parents=True)
    (folder / "leak.md").symlink_to("../../id_rsa.md")
    found = world.find()
    assert found.items() == ()
    assert len(found.problems["commands" if kind == "commands" else "agents"]) == 1
    assert "PRIVATE" not in str(found.problems)


async def test_its_own_attachments_are_not_refused_by_its_limits(
    world: World, opened: Open, events: list[Event]
) -> None:
    world.write(".claude/commands/look.md", "---\nallowed-tools: Bash(ls:*)\n---\nLook @a.txt")
    world.write("a.txt", "the text of a\n")
    world.approve()
    read = {"name": "read_file", "arguments": {"path": "a.txt"}}
    conversation = await opened({"calls": [read]}, {"text": "done"})

    await conversation.turn("/look")

    sent = [part.text for part in conversation.session.messages[0].parts if isinstance(part, Text)]
    assert any("the text of a" in text for text in sent)
    of_model = [event for event in events if isinstance(event, ToolFinished)][-1]
    assert of_model.refused
