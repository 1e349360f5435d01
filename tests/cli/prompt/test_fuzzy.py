from hypothesis import given
from hypothesis import strategies as st

from kode.cli.prompt.fuzzy import Paths
from tests.tables import for_each

PATHS = [
    "docs/render.md",
    "kode/cli/render.py",
    "kode/rendering/x.py",
    "kode/cli/repl_end.py",
]


def test_the_files_own_name_ranks_before_its_folders():
    assert Paths.of(PATHS).best("render", 9) == [
        "docs/render.md",
        "kode/cli/render.py",
        "kode/rendering/x.py",
    ]


def test_letters_in_order_are_enough():
    assert Paths.of(PATHS).best("clirpy", 9) == [
        "kode/cli/render.py",
        "kode/cli/repl_end.py",
    ]
    assert Paths.of(PATHS).best("zzz", 9) == []


def test_the_number_of_matches_is_bounded():
    assert len(Paths.of([f"f{n}" for n in range(500)]).best("", 20)) == 20


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
    assert Paths.of([second, first]).best(query, 9) == [first, second]


def test_letters_in_another_order_do_not_fit():
    assert Paths.of(["abc"]).best("cab", 9) == []


def test_signs_that_mean_something_in_patterns_are_letters_like_others():
    paths = Paths.of(["a[x]^-.py", "b.py"])

    assert paths.best("[x]^-", 9) == ["a[x]^-.py"]
    assert paths.best(".", 9) == ["a[x]^-.py", "b.py"]


def test_the_best_of_many_paths_is_found():
    many = [f"x{n}a{n}p{n}q" for n in range(1_500)]

    assert Paths.of([*many, "deep/er/and/deeper/app_longer.py"]).best("app", 1) == [
        "deep/er/and/deeper/app_longer.py"
    ]


@given(st.lists(st.text("ab/_.C ", max_size=8)), st.text("abc/_", max_size=4), st.text("abc"))
def test_a_path_that_fits_a_query_fits_its_beginning(paths, query, more):
    given_paths = Paths.of(paths)

    longer = given_paths.matching(query + more).given

    assert given_paths.matching(query).matching(query + more).given == longer
    assert set(longer) <= set(given_paths.matching(query).given)


@given(st.lists(st.text("abXY/_-. ", max_size=12)), st.text("abXY/", min_size=1, max_size=4))
def test_each_fitting_path_is_found_once(paths, query):
    fitting = Paths.of(paths).matching(query).given

    assert sorted(Paths.of(paths).best(query, len(paths))) == sorted(fitting)
