"""Reports of faults in kode itself: a file under `$KODE_HOME/logs`, credentials masked."""

import time
import traceback

from kode import durable, paths
from kode.credentials import redact
from kode.errors import KodeError


def describe(error: BaseException) -> str:
    """Writes a report; returns what happened and where the report is. Never raises."""
    return f"An internal error in kode ({type(error).__name__}). {write_report(error)}"


def write_report(error: BaseException) -> str:
    """Writes the traceback; returns a sentence that says where it is. Never raises."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        now = version("kode")
    except PackageNotFoundError:
        now = "(not installed)"
    text = redact("".join(traceback.format_exception(error)))
    try:
        folder = paths.logs_folder(paths.home())
        path = folder / f"fault-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.txt"
        durable.make_folder(folder)
        durable.replace(path, f"kode {now}\n{text}".encode("utf-8", "replace"))
    except (KodeError, OSError):
        return "The error report could not be written to the log folder."
    return f"The report is in {path}; please attach it when you report this."
