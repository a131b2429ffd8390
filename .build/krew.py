"""Make what krew installs of the single file: `krew.py FILE DIRECTORY`, run by `make standalone`.

An archive with the program `kubectl-forewarn` and the licence, and manifests/krew/forewarn.yaml with its sum.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import platform
import re
import sys
import tarfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
MANIFEST: Final = ROOT / "manifests/krew/forewarn.yaml"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64", "AMD64": "amd64"}


def build(program: Path, directory: Path, version: str) -> Path:
    """Write the archive and the manifest into a directory; returns the manifest's path. The same file, the same sum."""
    system, machine = platform.system().lower(), _ARCHITECTURES.get(platform.machine(), platform.machine())
    archive = directory / f"kubectl-forewarn-{system}-{machine}.tar.gz"
    directory.mkdir(parents=True, exist_ok=True)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, path, mode in (("kubectl-forewarn", program, 0o755), ("LICENSE", ROOT / "LICENSE", 0o644)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = path.stat().st_size, mode
            with path.open("rb") as file:
                tar.addfile(entry, file)
    archive.write_bytes(gzip.compress(packed.getvalue(), 6, mtime=0))
    manifest = (
        MANIFEST.read_text("utf-8").replace("v0.0.0", f"v{version}").replace("linux-amd64", f"{system}-{machine}")
    )
    manifest = manifest.replace("os: linux", f"os: {system}").replace("arch: amd64", f"arch: {machine}")
    manifest = re.sub(r"0{64}", hashlib.sha256(archive.read_bytes()).hexdigest(), manifest)
    made = directory / MANIFEST.name
    made.write_text(manifest, "utf-8")
    return made


def version() -> str:
    """That of the sources."""
    found = re.search(r'VERSION[^=]*= "([^"]+)"', (ROOT / "policies/__init__.py").read_text("utf-8"))
    assert found
    return found[1]


if __name__ == "__main__":
    build(Path(sys.argv[1]), Path(sys.argv[2]), version())
