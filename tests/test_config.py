"""Configuration: its layers, what a repository may not set, faults, and which provider is asked."""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kode.config.choice import (
    LOCAL_KEY,
    choose_small_model,
    resolve_model,
    resolve_provider,
    row_of,
    switch_provider,
)
from kode.config.load import ALLOWED_IN_PROJECT, Faults, Loaded, load_config, project_file
from kode.config.model import Config, ProviderPart, display_value, flatten
from kode.errors import ConfigError, Setting, UserError
from kode.permissions.names import MODE_CALLED
from kode.values import asdict, validator
from tests.tables import for_each

ROOT = Path(__file__).parent.parent
Environ = Mapping[str, str]


class Place:
    """A home and a repository with a folder in it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.cwd = self.project / "src"
        self.home.mkdir()
        (self.project / ".git").mkdir(parents=True)
        self.cwd.mkdir()

    def own(self, text: str | Mapping[str, Any]) -> None:
        (self.home / "config.json").write_text(_text(text))

    def of_project(self, text: str | Mapping[str, Any]) -> None:
        (self.project / "kode.json").write_text(_text(text))

    def load(self, environ: Mapping[str, str] = {}, **flags: Any) -> Loaded:
        named = {key.replace("__", "."): value for key, value in flags.items()}
        return load_config(self.home, self.cwd, environ=environ, flags=named)

    def fault(self, environ: Mapping[str, str] = {}, **flags: Any) -> str:
        with pytest.raises(ConfigError) as caught:
            self.load(environ, **flags)
        return str(caught.value)


def _text(text: str | Mapping[str, Any]) -> str:
    return text if isinstance(text, str) else json.dumps(text)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# ── layers ───────────────────────────────────────────────────────────────────────────────────


def test_a_later_layer_wins_and_every_value_knows_its_origin(place: Place) -> None:
    place.own(
        '\ufeff{\n  "model": "a",\n  "max_steps": 4,\n  "timeout_s": 9,\n  "memory": {\n'
        '    "buffer_lines": 3\n  },\n "append_system": "model",\n "script": "\\"model\\": 3",\n'
        ' "base_url": "http://${HOST}:1/v1"\n}'
    )
    place.of_project('{"model": "b",\n "profile": "small"}')

    environ = {"KODE_MODEL": "c", "KODE_MAX_STEPS": "3", "HOST": "box"}
    loaded = place.load(environ, model="d")

    config, origins, file = loaded.config, loaded.origins, "~/home/config.json"
    assert (config.model, origins["model"]) == ("d", "--model")
    assert (config.max_steps, origins["max_steps"]) == (3, "KODE_MAX_STEPS")
    assert (config.timeout_s, origins["timeout_s"]) == (9, f"{file}:4")
    assert (config.memory.buffer_lines, origins["memory.buffer_lines"]) == (3, f"{file}:6")
    assert (config.base_url, origins["base_url"]) == ("http://box:1/v1", f"{file}:10")
    assert place.load(environ).origins["model"] == "KODE_MODEL"
    assert place.load({"HOST": "box"}).origins["profile"] == "~/project/kode.json:2"


def test_rules_of_all_layers_count_together(place: Place) -> None:
    place.own({"permissions": {"deny": ["shell(rm:*)"], "allow": ["shell(ls:*)"]}})
    place.of_project({"permissions": {"deny": ["edit(secrets/**)"]}})

    loaded = place.load(permissions__deny=["fetch"])

    assert loaded.config.permissions.deny == ("shell(rm:*)", "edit(secrets/**)", "fetch")
    assert loaded.config.permissions.allow == ("shell(ls:*)",)
    assert loaded.origins["permissions.deny"].count(" + ") == 2


def test_the_project_file_is_sought_up_to_the_repository_root(place: Place) -> None:
    above = place.project.parent
    (above / "kode.json").write_text("{}")
    assert project_file(place.cwd) is None
    place.of_project("")
    assert project_file(place.cwd) == place.project / "kode.json"
    os.mkfifo(place.cwd / "kode.json")  # which is not waited for
    assert place.load().files == (place.cwd / "kode.json",)
    # Outside a repository only the folder itself counts.
    assert project_file(place.home) is None
    assert project_file(above) == above / "kode.json"


@for_each(
    ("own", "environ", "flags", "enabled", "system"),
    [
        ({}, {"KODE_MEMORY": "off"}, {}, False, "tiered"),
        ({}, {}, {"memory__system": "off"}, False, "tiered"),
        ({"memory": {"enabled": False}}, {"KODE_MEMORY": "vault"}, {}, True, "vault"),
    ],
)
def test_a_variable_or_flag_turns_memory_off_or_on(
    place: Place, own: Any, environ: Environ, flags: Any, enabled: bool, system: str
) -> None:
    place.own(own)

    memory = place.load(environ, **flags).config.memory

    assert (memory.enabled, memory.system) == (enabled, system)


def test_an_unknown_variable_is_named_with_the_nearest_name(place: Place) -> None:
    environ = {"KODE_PERMISSIONS_MODE": "plan", "KODE_XQ": "1", "KODE_HOME": "/x", "OTHER": "1"}
    of_kode = {"KODE_PLUGIN_FILES": "a.py", "KODE_PROJECT_DIR": "/x", "KODE_DEPTH": "1"}

    first, second = place.load(environ | of_kode).warnings

    assert "Unknown environment variable KODE_PERMISSIONS_MODE" in first
    assert "mean KODE_PERMISSION_MODE?" in first
    assert "KODE_XQ" in second


@for_each("mode", MODE_CALLED)
def test_a_mode_may_be_named_as_elsewhere_in_every_layer(place: Place, mode: str) -> None:
    place.own({"permissions": {"mode": mode}})
    assert place.load().config.permissions.mode == MODE_CALLED[mode]
    place.own({"permissions": {"mode": "plan"}})
    told = place.load({"KODE_PERMISSION_MODE": mode}).config.permissions.mode
    assert told == MODE_CALLED[mode]


# ── what a repository may not do ─────────────────────────────────────────────────────────────


def test_a_project_file_sets_only_harmless_settings(place: Place) -> None:
    """So that a key which is new is the person's own until somebody has thought about it."""
    keys = flatten(Config()).keys() - {"permissions.mode"}
    document: dict[str, Any] = {"hooks": {}, "providers": {"openai": {"base_url": "http://x"}}}
    for key in keys - ALLOWED_IN_PROJECT - {"providers"}:
        *above, name = key.split(".")
        section = document
        for step in above:
            section = section.setdefault(step, {})
        section[name] = "${AWS_SECRET_ACCESS_KEY}"
    place.of_project(document)

    loaded = place.load({"AWS_SECRET_ACCESS_KEY": "x"})

    (warning,) = loaded.warnings
    assert loaded.config == Config()
    assert [key for key in keys - ALLOWED_IN_PROJECT if key not in warning] == []
    assert keys >= ALLOWED_IN_PROJECT
    place.of_project({})
    place.own({"permissions": {"allow": ["shell"], "mode": "full"}, "hooks": {}})
    own = place.load()
    assert (own.warnings, own.config.permissions.mode) == ((), "full")


@for_each(
    ("own", "project", "effective"),
    [
        ("ask", "plan", "plan"),
        ("full", "ask", "ask"),
        ("ask", "auto-edit", "ask"),
        ("ask", "bypassPermissions", "ask"),
    ],
)
def test_a_project_file_may_only_make_the_permission_mode_stricter(
    place: Place, own: str, project: str, effective: str
) -> None:
    place.own({"permissions": {"mode": own}})
    place.of_project({"permissions": {"mode": project}})

    loaded = place.load()

    assert loaded.config.permissions.mode == effective
    assert bool(loaded.warnings) == (effective == own)


def test_a_project_file_reads_nothing_of_the_environment(place: Place) -> None:
    """What a variable holds cannot be told from its name: a URL of a database has a password."""
    place.of_project({"model": "${DATABASE_URL}"})

    fault = place.fault({"DATABASE_URL": "postgres://me:word@host"})

    assert "kode.json:1: `model` uses ${DATABASE_URL}" in fault
    assert "does not read" in fault


# ── a home of others ─────────────────────────────────────────────────────────────────────────


@for_each("mode", [0o777, 0o775, 0o757])
def test_a_home_others_can_write_in_is_closed_once(place: Place, mode: int) -> None:
    place.home.chmod(mode)

    assert str(place.home) in place.load().warnings[0]

    assert place.load().warnings == ()
    assert stat.S_IMODE(place.home.stat().st_mode) == 0o755


def test_a_home_of_another_user_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.own({})
    (place.home / "config.json").chmod(0o666)
    place.home.chmod(0o777)
    if os.geteuid() == 0:
        os.chown(place.home / "config.json", 1, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    assert "to another user" in place.fault()


# ── faults ───────────────────────────────────────────────────────────────────────────────────


@for_each(
    ("text", "says"),
    [
        ('{\n "max_setps": 3}', "config.json:2: unknown key `max_setps`. Did you mean `max_s"),
        ('{"memory":\n {"merge_treshold": 1}}', "config.json:2: unknown key `memory.merge_tre"),
        ('{"prices": {"m": {"input": 1, "ouput": 2}}}', "`prices.m.output` is missing"),
        ('{"providers":\n {"opnai": {}}}', "config.json:2: `providers.opnai`: There is no prov"),
        ('{"providers": {"mine": {"api_key": "k"}}}', "set `providers.mine.base_url`"),
        ('{"providers": {"my own": {"base_url": "http://x"}}}', "`providers.my own`"),
        ('{"provider": "mine"}', "config.json:1: `provider`: There is no provider 'mine'"),
        ('{"max_steps": "90"}', '`max_steps` is "90"; it must be a whole number'),
        ('{"permissions": {"mode": "yolo"}}', "it must be 'ask', 'auto-edit', 'plan' or 'full'"),
        ('{"sandbox": {"enabled": "on"}}', "is \"on\"; it must be true, false or 'auto'."),
        ('{"permissions": {"deny": ["a", 3]}}', "`permissions.deny.1` is 3"),
        ('{"memory": {"merge_threshold": 1.5}}', "is 1.5; it must be less than or equal to 1"),
        ('{"memory": {"embedding": {"base_url": "http://x"}}}', "memory.embedding.provider"),
        ('{"memory": {"add_threshold": 0.9}}', "`add_threshold` must not be above"),
        ('{"memory": 3}', "`memory` is 3; it must be a section"),
        ("{", "config.json is not JSON: EOF while parsing an object at line 1 column"),
        ("[]", "holds []; a config is one JSON object"),
        ('{"model": "a", "model": "b"}', "Detected duplicate key"),
        ('{"model": "${NOT_SET}"}', "`model` uses ${NOT_SET}, which is not set"),
        ("[" * 100_000, "recursion limit"),
    ],
)  # fmt: skip
def test_a_wrong_config_names_place_key_value_and_allowed(
    place: Place, text: str, says: str
) -> None:
    place.own(text)

    assert says in place.fault()
    assert "/home/config.json" in place.fault()


@for_each(
    ("variable", "value", "says"),
    [
        ("KODE_MAX_STEPS", "many", 'KODE_MAX_STEPS: `max_steps` is "many"; it must be a whole'),
        ("KODE_PERMISSION_MODE", "yolo", "KODE_PERMISSION_MODE: `permissions.mode` is"),
        ("memory__system", "elephant", "--memory: in `memory.system`"),
        ("model", "\udcff", "--model: `model` holds half of a character"),
        *(("provider", name, f"Did you mean {meant}?") for name, meant in (
            ("grok", "xai"), ("claude", "anthropic"), ("google", "gemini"), ("kimi", "moonshot"))),
    ],
)  # fmt: skip
def test_a_wrong_variable_or_flag_is_named(
    place: Place, variable: str, value: str, says: str
) -> None:
    given = {variable: value}
    assert says in (place.fault(given) if variable.isupper() else place.fault(**given))


def test_all_faults_are_known_and_none_shows_a_key(place: Place) -> None:
    secret = "sk-ant-api03-" + "aB3dE5gH7jK9" * 8
    place.own({"api_key": [secret], "providers": {"openai": secret}, "max_steps": secret})

    with pytest.raises(Faults) as caught:
        place.load()

    assert len(caught.value.faults) == 3
    assert "2 more: `kode config check`" in str(caught.value)
    assert all(secret not in fault for fault in caught.value.faults)


def test_unreadable_config_files_are_faults(place: Place) -> None:
    file = place.home / "config.json"
    file.write_bytes(b'{"model": "\xff"}')
    assert "UTF-8 text (byte 11)" in place.fault()
    file.write_bytes(b" " * 1_000_001)
    assert "larger than 1 MB" in place.fault()
    file.unlink()
    file.mkdir()
    assert ": Is a directory" in place.fault()


def test_every_key_is_explained_and_in_the_example() -> None:
    text = (ROOT / "config.example.json").read_text()
    page = (ROOT / "docs" / "configuration.md").read_text()
    assert validator(Config).validate_json(text, strict=True) == Config()
    assert json.loads(text) == json.loads(json.dumps(asdict(Config())))
    assert [key for key in flatten(Config()) if f"`{key}`" not in page] == []


# ── which provider ───────────────────────────────────────────────────────────────────────────

OPENAI, ANTHROPIC = {"OPENAI_API_KEY": "o-key"}, {"ANTHROPIC_API_KEY": "a-key"}
BOTH = OPENAI | ANTHROPIC
GROQ, ROUTER, GEMINI = {"GROQ_API_KEY": "g"}, {"OPENROUTER_API_KEY": "r"}, {"GEMINI_API_KEY": "g"}
OWN_URL = {"base_url": "http://127.0.0.1:1/v1"}


@for_each(
    ("config", "environ", "name", "fields"),
    [
        ({}, OPENAI, "openai", {"api_key": "o-key"}),
        ({}, BOTH, "anthropic", {"api_key": "a-key"}),
        ({"model": "gpt-5"}, BOTH, "openai", {"api_key": "o-key"}),
        ({"model": "claude-x"}, BOTH, "anthropic", {"api_key": "a-key"}),
        ({"model": "qwen"}, BOTH, "openai", {"api_key": "o-key"}),
        ({"api_key": "sk-ant-x"}, OPENAI, "anthropic", {"api_key": "sk-ant-x"}),
        ({"api_key": "k", "model": "claude-x"}, {}, "anthropic", {"api_key": "k"}),
        (OWN_URL, OPENAI, "openai", {"api_key": "o-key"}),
        ({**OWN_URL, "model": "claude-x"}, {}, "openai", {"api_key": LOCAL_KEY}),
        ({}, {"ANTHROPIC_BASE_URL": "http://x"}, "anthropic", {"api_key": LOCAL_KEY}),
        ({"script": "s.json"}, OPENAI, "scripted", {"api_key": None}),
        ({"provider": "ollama", "model": "q"}, {}, "ollama",
         {"api_key": LOCAL_KEY, "base_url": None}),
        ({"provider": "bedrock"}, {}, "bedrock", {"api_key": None}),
        # The address of the config comes before the variable; the effort is general or its own.
        ({}, OPENAI | {"OPENAI_BASE_URL": "http://env"}, "openai", {"base_url": "http://env"}),
        (OWN_URL, OPENAI | {"OPENAI_BASE_URL": "http://env"}, "openai", OWN_URL),
        ({"providers": {"openai": {"effort": "low"}}, "effort": "max"}, OPENAI, "openai",
         {"effort": "max"}),
        # A model has aliases, and may name its provider.
        ({"model": "sonnet"}, ANTHROPIC, "anthropic", {"model": "claude-sonnet-5-5"}),
        ({"model": "sonnet"}, ROUTER, "openrouter", {"model": "anthropic/claude-sonnet-5.5"}),
        ({"model": "gemini-pro"}, OPENAI | GEMINI, "gemini", {"model": "gemini-3.1-pro-preview"}),
        ({"model": "openai/gpt-5"}, ROUTER | OPENAI, "openai", {"model": "gpt-5"}),
        ({"model": "gpt-oss:20b", "providers": {"ollama": {}}}, OPENAI, "ollama",
         {"model": "gpt-oss:20b"}),
        ({"model": "opus", "base_url": "http://proxy/v1"}, ANTHROPIC, "openai", {"model": "opus"}),
    ],
)  # fmt: skip
def test_the_provider_is_the_one_that_can_be_asked(
    config: dict[str, Any], environ: Environ, name: str, fields: dict[str, Any]
) -> None:
    choice = resolve_provider(validator(Config).validate_python(config), environ)

    assert choice.name == name
    assert {field: getattr(choice, field) for field in fields} == fields


TWO = {name: {"base_url": "http://x/v1"} for name in ("one", "two")}
AZURE = Setting("providers.azure.base_url", "AZURE_OPENAI_BASE_URL")


@for_each(
    ("config", "environ", "says", "setting"),
    [
        ({}, {}, r"kode init.*OPENAI_API_KEY.*ANTHROPIC_API_KEY.*kode demo", None),
        ({"provider": "openai"}, ANTHROPIC, ".", Setting("providers.openai.api_key", *OPENAI)),
        ({"provider": "azure"}, {"AZURE_OPENAI_API_KEY": "k"}, ".", AZURE),
        ({"providers": TWO}, {}, "one, two", None),
        ({"model": "opus"}, OPENAI, "no key for anthropic, which has the model claude-opus", None),
    ],
)  # fmt: skip
def test_a_provider_that_cannot_be_asked_is_an_error(
    config: dict[str, Any], environ: Environ, says: str, setting: Setting | None
) -> None:
    with pytest.raises(UserError, match=says) as caught:
        resolve_provider(validator(Config).validate_python(config), environ)

    assert setting in (caught.value.setting, None)


def test_switching_takes_no_key_and_no_address_along() -> None:
    more = ProviderPart(base_url="http://127.0.0.1:2/v1", model="m")
    config = Config(**OWN_URL, api_key="first-key", providers={"more": more})

    there = switch_provider(config, {}, "more", None)
    back = switch_provider(there, {}, "openai", "again")

    for settings, expected in (
        (there, ("more", more.base_url, LOCAL_KEY, "m")),
        (back, ("openai", OWN_URL["base_url"], "first-key", "again")),
    ):
        choice = resolve_provider(settings, {})
        assert (choice.name, choice.base_url, choice.api_key, choice.model) == expected


@for_each(
    ("current", "text", "found"),
    [
        ("openai", "openai/gpt-5", ("openai", "gpt-5")),
        ("openai", "groq/openai/gpt-oss-20b", ("groq", "openai/gpt-oss-20b")),
        ("groq", "openai/gpt-oss-20b", ("groq", "openai/gpt-oss-20b")),
        ("openai", "mistral/devstral", ("openai", "mistral/devstral")),
    ],
)
def test_the_part_before_a_slash_names_a_configured_provider(
    current: str, text: str, found: tuple[str, str]
) -> None:
    row = row_of(Config(), current)
    assert resolve_model(Config(provider=current), OPENAI | GROQ, row, text) == found


@for_each(
    ("config", "environ", "name", "model"),
    [
        ({}, OPENAI, "openai", "gpt-6-luna"),
        ({**OWN_URL, "model": "m"}, {}, "openai", "m"),
        ({"small_model": "groq/kimi"}, OPENAI | GROQ | {"X": ""}, "groq", "kimi"),
        ({"small_model": "claude-x"}, BOTH | {"X": ""}, "anthropic", "claude-x"),
    ],
)
def test_small_work_goes_to_the_named_or_vendors_model(
    config: dict[str, Any], environ: Environ, name: str, model: str
) -> None:
    settings = validator(Config).validate_python({"provider": "openai", **config})

    choice = choose_small_model(settings, environ, settings.small_model)

    assert (choice.name, choice.model) == (name, model)


def test_keys_are_shown_by_their_end_only() -> None:
    openai = ProviderPart(api_key="short", headers={"x-key": "very-secret"})
    config = Config(api_key="abcdefgh12345678", providers={"openai": openai})

    values = {key: display_value(key, value) for key, value in flatten(config).items()}

    assert values["api_key"] == "set, ends in …5678"
    assert values["providers"]["openai"]["api_key"] == "set"
    assert values["providers"]["openai"]["headers"] == {"x-key": "set"}
