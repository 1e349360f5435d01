"""Places of work for tests."""

from pathlib import Path
from typing import Any

from kode.permissions import places
from kode.workplace import Workplace


def workplace(cwd: Path, **given: Any) -> Workplace:
    """A project in `cwd`, in the home above it; `given` are fields of a `Workplace`."""
    user_home = given.get("user_home", cwd.parent)
    home = given.get("home", user_home / ".kode")
    fields = {
        "project": cwd,
        "roots": (cwd,),
        "home": home,
        "protected": (home,),
        "outputs": home / "outputs",
        "user_home": user_home,
    }
    return Workplace(cwd=cwd, **{**fields, **given})


def empty_repository(folder: Path) -> None:
    """Makes `folder` a repository, as `git init` does, also where there is no git."""
    for name in ("hooks", "objects", "refs/heads"):
        (folder / ".git" / name).mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git" / "config").write_text("[core]\n\trepositoryformatversion = 0\n")


def ground(cwd: Path, user_home: Path) -> places.PathRules:
    return places.path_rules(workplace(cwd, user_home=user_home))
