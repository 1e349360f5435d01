"""Reads a bundle from a zip or tar archive, in memory: nothing is unpacked to disk, so that no name
in it can lead anywhere."""

import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from pathlib import PurePosixPath

from kode.plugin import visible
from kode.plugin.errors import ConfigError
from kode.plugins.bundles.tree import LINK, SKIPPED, File, Gathering, Tree, below, too_large

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".txz")
_DAMAGE = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError,
    RuntimeError, NotImplementedError, ValueError,
)  # fmt: skip
"""What the readers raise for archives that are damaged, encrypted, or of another kind."""


def read_archive(data: bytes, name: str) -> Tree:
    """The files of an archive; those of its only folder, where it has just one. Raises: ConfigError
    for one that cannot be read, that holds too much, or with a name that leads elsewhere."""
    gathering = Gathering()
    try:
        if zipfile.is_zipfile(io.BytesIO(data)):
            _read_zip(data, gathering)
        else:
            _read_tar(data, gathering)
    except _DAMAGE as error:
        raise ConfigError(
            f"{visible(name)} is no zip or tar archive that kode can read ({error})."
        ) from error
    tree = gathering.tree()
    tops = {path.partition("/")[0] for path in (*tree.files, *tree.left)}
    alone = len(tops) == 1 and all("/" in path for path in tree.files)
    return below(tree, tops.pop()) if alone and ".claude-plugin" not in tops else tree


def _read_zip(data: bytes, gathering: Gathering) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            mode = info.external_attr >> 16
            if info.is_dir() or _is_skipped(info.filename):
                continue
            if stat.S_ISLNK(mode):
                gathering.leave(info.filename, LINK)
                continue
            if info.file_size > gathering.room:
                raise too_large()
            with archive.open(info) as file:
                content = file.read(gathering.room + 1)
            gathering.add(info.filename, File(data=content, executable=bool(mode & 0o111)))


def _read_tar(data: bytes, gathering: Gathering) -> None:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as archive:
        for member in archive:
            if member.isdir() or _is_skipped(member.name):
                continue
            # Before it is read or passed over: either unpacks it.
            if member.size > gathering.room:
                raise too_large()
            if not member.isreg():
                is_link = member.issym() or member.islnk()
                gathering.leave(member.name, LINK if is_link else "it is no regular file")
                continue
            file = archive.extractfile(member)
            content = file.read() if file is not None else b""
            gathering.add(member.name, File(data=content, executable=bool(member.mode & 0o111)))


def _is_skipped(name: str) -> bool:
    return not set(SKIPPED).isdisjoint(PurePosixPath(name).parts)
