#!/bin/sh
# Makes .venv: the packages of requirements.lock, each checked by its hash, then the project itself, editable.
# uv does it when it is there and able to, venv and pip otherwise. Quick when the lock is the one installed.
#
#   tools/setup.sh packages    the virtual environment and the locked packages
#   tools/setup.sh project     the project in it; works offline once the packages are there
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }

find_python() {
    for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.13 python3.14 python}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            # The one below a virtual environment: ours, if it is on PATH, is about to be removed.
            "$candidate" -c 'import sys; print(getattr(sys, "_base_executable", "") or sys.executable)'
            return
        fi
    done
    if [ -n "${PYTHON:-}" ]; then
        say "$PYTHON is not a Python 3.11 or newer that runs"
    else
        say "makeway needs Python 3.11 or newer, and none was found on PATH"
        say "hint: install one, or name it: make PYTHON=/path/to/python3.12"
    fi
    return 1
}

packages_by_uv() {
    rm -rf .venv
    uv venv --quiet --no-project --python "$1" .venv &&
        uv pip install --quiet --python .venv/bin/python --require-hashes -r requirements.lock
}

packages_by_pip() {
    rm -rf .venv
    if ! "$1" -m venv .venv; then
        say "$1 cannot make a virtual environment"
        say "hint: some systems ship that part apart, often as a package named python3-venv"
        return 1
    fi
    # The lock names everything, so nothing is resolved: some versions of pip ask for "coverage[toml]" beside the
    # "coverage" that is pinned, and take a newer one that has no hash here.
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
}

packages() {
    if cmp -s requirements.lock .venv/requirements.lock && .venv/bin/python -c '' 2>/dev/null; then
        return # only the file's time has changed
    fi
    python=$(find_python)
    if command -v uv >/dev/null && packages_by_uv "$python"; then
        say "installed the locked packages with uv"
    else
        say "installing the locked packages with pip; this takes a minute, once"
        packages_by_pip "$python"
    fi
    cp requirements.lock .venv/requirements.lock
}

project() {
    if .venv/bin/python -m pip --version >/dev/null 2>&1; then
        .venv/bin/python -m pip install --quiet --disable-pip-version-check \
            --no-index --no-deps --no-build-isolation --editable .
    else
        uv pip install --quiet --python .venv/bin/python --offline --no-deps --no-build-isolation --editable .
    fi
}

case ${1:-} in
packages) packages ;;
project) project ;;
*)
    say "usage: tools/setup.sh packages|project"
    exit 2
    ;;
esac
