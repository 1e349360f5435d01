"""Commands: found by name, filled in, and held to what they allow."""

import pytest

from kode.events import Event, Notice, ToolFinished
from kode.extensions.commands import pieces
from kode.extensions.found_extensions import in_use
from kode.messages import Image, Text
from kode.permissions.question import Answer, Question
from tests.extensions.found_extensions.conftest import Open, World
from tests.pictures import png
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


def test_one_without_a_description_is_described_by_its_first_line(world: World) -> None:
    world.write("~/.claude/commands/x.md", "# Fix the build\n\nRun it.")

    assert in_use(world.find().commands)[0].description == "Fix the build"


def test_one_whose_limits_cannot_be_read_is_left_out(world: World) -> None:
    world.write("~/.claude/commands/x.md", "---\n- allowed-tools: Read\nx: y\n---\nDo it")

    assert world.find().commands == ()
    assert "is not YAML" in world.find().problems["commands"][0]


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
    assert any("asks for the model opus, which kode does not know" in text for text in notices)


async def test_one_that_is_not_approved_is_an_ordinary_message(world: World, opened: Open) -> None:
    world.write(".claude/commands/x.md", "Run !`touch effect`")
    conversation = await opened({"text": "done"}, mode="full")

    await conversation.turn("/x")

    assert not (world.project / "effect").exists()
    sources = [part.source for part in conversation.session.messages[0].parts]
    assert sources == ["opening", ""]


async def test_every_line_of_the_session_is_an_entry(world: World, opened: Open) -> None:
    world.write("~/.claude/commands/x.md", "Look: !`echo one` @notes.md")
    world.write("notes.md", "n\n")
    conversation = await opened({"text": "done"})

    await conversation.turn("/x")

    assert conversation.session.path is not None
    assert b"" not in conversation.session.path.read_bytes().split(b"\n")[:-1]


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


def test_a_link_within_the_folder_is_read(world: World) -> None:
    world.write(".claude/commands/one.md", "do it\n")
    (world.project / ".claude/commands/two.md").symlink_to("one.md")
    assert [item.name for item in world.find().items()] == ["one", "two"]


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


async def test_a_picture_that_it_names_goes_with_it(world: World, opened: Open) -> None:
    world.write("~/.claude/commands/look.md", "---\nallowed-tools: Bash(ls:*)\n---\nLook @a.png")
    (world.project / "a.png").write_bytes(png(7, 5))
    conversation = await opened({"text": "done"})

    await conversation.turn("/look")

    images = [part for part in conversation.session.messages[0].parts if isinstance(part, Image)]
    assert [(image.width, image.call_id) for image in images] == [(7, "")]
