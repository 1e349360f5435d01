from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kode.cli.prompt.files import best_matches
from tests.tables import for_each

PATHS = [
    "docs/render.md",
    "kode/cli/render.py",
    "kode/rendering/x.py",
    "kode/cli/repl_end.py",
]


def test_the_files_own_name_ranks_before_its_folders():
    assert best_matches(PATHS, "render", 9) == [
        "docs/render.md",
        "kode/cli/render.py",
        "kode/rendering/x.py",
    ]


def test_letters_in_order_are_enough():
    assert best_matches(PATHS, "clirpy", 9) == [
        "kode/cli/render.py",
        "kode/cli/repl_end.py",
    ]
    assert best_matches(PATHS, "zzz", 9) == []


def test_the_number_of_matches_is_bounded():
    assert len(best_matches([f"f{n}" for n in range(500)], "", 20)) == 20


@for_each(
    ("query", "first", "second"),
    [
        ("sess", "kode/session/log.py", "kode/possession.py"),
        ("app", "src/app.py", "application/other.py"),
        ("rlog", "src/run_log.py", "src/xrxlxoxg.py"),
        ("my file", "docs/my file.md", "docs/my-other-filer.md"),
        ("src", "src/", "src/app.py"),
        ("deep", "src/deep/", "deep/app.py"),
        ("", "src/", "src/app.py"),
    ],
)
def test_names_that_begin_or_adjoin_rank_first(query, first, second):
    assert best_matches([second, first], query, 9) == [first, second]


def test_letters_in_another_order_do_not_fit():
    assert best_matches(["abc"], "cab", 9) == []


def test_signs_that_mean_something_in_patterns_are_letters_like_others():
    paths = ["a[x]^-.py", "b.py"]

    assert best_matches(paths, "[x]^-", 9) == ["a[x]^-.py"]
    assert best_matches(paths, ".", 9) == ["a[x]^-.py", "b.py"]


def test_the_best_of_many_paths_is_found():
    many = [f"x{n}a{n}p{n}q" for n in range(1_500)]

    assert best_matches([*many, "deep/er/and/deeper/app_longer.py"], "app", 1) == [
        "deep/er/and/deeper/app_longer.py"
    ]


@given(st.lists(st.text("abXY/_-. ", max_size=12)), st.text("abXY/", min_size=1, max_size=4))
def test_each_fitting_path_is_found_once(paths, query):
    fitting = [path for path in paths if set(query.lower()) <= set(path.lower())]
    matches = best_matches(paths, query, len(paths))

    assert not Counter(matches) - Counter(fitting)
    assert Counter(matches) >= Counter(path for path in paths if query.lower() in path.lower())
