import json
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode.cli.flags import MODES, add_conversation_flags, config_flags
from kode.cli.parser import COMMANDS, Parser, nearest
from kode.errors import ConfigError
from kode.permissions.modes import PermissionMode
from tests.tables import for_each

CASES = Path(__file__).parent / "data" / "elsewhere_flags.jsonl"


def conversation_parser() -> Parser:
    parser = Parser("kode run", "")
    add_conversation_flags(parser)
    return parser


def test_every_permission_mode_is_explained_in_their_order() -> None:
    assert get_args(PermissionMode) == MODES


@for_each("case", [json.loads(line) for line in CASES.read_text().splitlines()])
def test_a_flag_known_from_elsewhere_sets_what_it_means(case: dict) -> None:
    assert config_flags(conversation_parser().parse(case["argv"])) == case["sets"]


LISTED = [name for name, (_, about) in COMMANDS.items() if about]


@given(st.sampled_from([name for name in LISTED if len(name) > 5]), st.data())
def test_a_command_with_one_slip_is_found(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(name) - 2))
    slips = (
        name[:at] + name[at + 1 :],
        name[:at] + "z" + name[at:],
        name[:at] + "z" + name[at + 1 :],
        name[:at] + name[at + 1] + name[at] + name[at + 2 :],
    )
    assert nearest(data.draw(st.sampled_from(slips)), LISTED) == f" Did you mean {name}?"


@pytest.mark.parametrize("flag", ["--image", "--no-sandbox", "-v", "--worktree", "-x"])
def test_a_word_far_from_every_flag_is_not_guessed(flag: str) -> None:
    assert nearest(flag, conversation_parser()._option_string_actions) == ""


def test_a_script_is_played_whatever_provider_the_config_names() -> None:
    flags = config_flags(conversation_parser().parse(["--script", "a.json"]))
    assert flags == {"script": "a.json", "provider": "scripted"}
    with pytest.raises(ConfigError, match="not openai"):
        config_flags(conversation_parser().parse(["--script", "a.json", "--provider", "openai"]))
