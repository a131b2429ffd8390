"""Make one file of an installed directory: `standalone.py DIRECTORY OUTPUT`, run by `make standalone`.

`{}` in the name of OUTPUT becomes the Python and the machine that the file needs, `py3.13-linux-x86_64`.

A zip file that Python runs. numpy and libyaml are libraries of the machine, which nothing loads out of a zip:
so the first start unpacks them and forewarn, under the name of the content, into $XDG_CACHE_HOME/forewarn
(~/.cache/forewarn), and later ones only look whether that is there. Python loads all else from the zip file. Files
are what unpacking costs, so there is bytecode, but no source.
"""

from __future__ import annotations

import compileall
import hashlib
import platform
import py_compile
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

_LEFT_OUT: Final = ("tests", "bin", "__pycache__", "*.pyc", "*.pyi", "*.lib", "*.a", "direct_url.json", "RECORD")
"""The last two say from where on this machine pip has installed it."""
_ASYNCHRONOUS: Final = ("aio", "aio[hs]*", "attr", "attrs*", "frozenlist*", "multidict*", "propcache*", "yarl*")
"""The asynchronous half of the kubernetes client and what only it needs: forewarn does not use it."""
_MAIN: Final = '''"""Unpack what is in this file, once, and start it."""

import os
import sys

NAME = "{name}"
SEAL = 0o1700
VERSION = {version}
UNPACKED = {unpacked}


def unpack(here):
    """Write the content beside its place and rename it there: two who start at once do not see half of it."""
    import tempfile
    import zipfile

    os.makedirs(os.path.dirname(here), mode=0o700, exist_ok=True)
    scratch = tempfile.mkdtemp(prefix=".unpacking-", dir=os.path.dirname(here))
    try:
        with zipfile.ZipFile(os.path.abspath(sys.argv[0])) as archive:
            archive.extractall(scratch, (name for name in archive.namelist() if name.partition("/")[0] in UNPACKED))
        os.chmod(scratch, SEAL)
        os.rename(scratch, here)
    except OSError:
        import shutil

        shutil.rmtree(scratch, ignore_errors=True)
        if not os.path.isdir(here):
            raise


def is_sealed(here):
    """Whether this file has unpacked it: a checkout may hold a directory of the name, but git sets no such mode."""
    try:
        status = os.lstat(here)
    except OSError:
        return False
    return (status.st_uid, status.st_mode & 0o7777) == (os.getuid(), SEAL)


def fail(why):
    """Report an error. Returns the exit status of wrong usage."""
    sys.stderr.write("forewarn: %s\\n" % why)
    return 2


def main():
    """The command's exit status."""
    if sys.version_info[:2] != VERSION:
        return fail("this file is for Python %d.%d, not %d.%d" % (*VERSION, *sys.version_info[:2]))
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):  # the XDG specification ignores a relative one
        cache = os.path.expanduser("~/.cache")
    here = os.path.join(cache, "forewarn", NAME)
    if not os.path.lexists(here):
        try:
            unpack(here)
        except OSError as error:
            why = "%s (XDG_CACHE_HOME names another place)" % error.strerror
            return fail("cannot be unpacked into %s: %s" % (here, why))
    if not is_sealed(here):
        return fail("%s was not unpacked by this file. Fix: remove it" % here)
    sys.path[:1] = here, sys.path[0]
    if os.path.basename(sys.argv[0]).startswith("kubectl-forewarn"):
        from forewarn.webhook.commands.kubectl_plugin import main
    else:
        from forewarn.__main__ import main

    return main()


if __name__ == "__main__":
    sys.exit(main())
'''


def build(directory: Path, output: Path) -> None:
    """Write `output`, of what `pip install --target` has put into `directory`. The same content, the same name."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch, "tree")
        shutil.copytree(directory, tree, ignore=shutil.ignore_patterns(*_LEFT_OUT, *_ASYNCHRONOUS))
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH  # who unpacks it does not keep the times of files
        compileall.compile_dir(tree, quiet=2, invalidation_mode=mode, stripdir=str(tree), legacy=True)
        for source in tree.rglob("*.py"):
            if source.with_suffix(".pyc").exists():
                source.unlink()
        native = {path.relative_to(tree).parts[0] for path in tree.rglob("*.so*")}
        content = hashlib.sha256()
        for path in sorted(path for path in tree.rglob("*") if path.is_file()):
            content.update(str(path.relative_to(tree)).encode() + b"\0" + path.read_bytes())
        (tree / "__main__.py").write_text(
            _MAIN.format(
                name=content.hexdigest()[:20],
                version=tuple(sys.version_info[:2]),
                unpacked=sorted({"forewarn", *native}),
            )
        )
        output.parent.mkdir(parents=True, exist_ok=True)
        _write(tree, output)
    output.chmod(0o755)


def _write(tree: Path, output: Path) -> None:
    """As the standard library's zipapp does, but the same bytes for the same content."""
    with open(output, "wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(path for path in tree.rglob("*") if path.is_file()):
                entry = zipfile.ZipInfo(str(path.relative_to(tree)), (1980, 1, 1, 0, 0, 0))
                entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                archive.writestr(entry, path.read_bytes())


def needed() -> str:
    """The Python and the machine that a file of this machine needs."""
    major, minor = sys.version_info[:2]
    return f"py{major}.{minor}-{sys.platform}-{platform.machine()}"


if __name__ == "__main__":
    build(Path(sys.argv[1]), Path(sys.argv[2].replace("{}", needed())))
