#!/bin/sh
# Makes .venv: the packages of a lock, each checked by its hash, then the project itself, editable.
# uv does it when it is there and able to, venv and pip otherwise. Quick when the lock is the one installed.
#
#   tools/setup.sh packages        the virtual environment, with what it takes to run: requirements.lock
#   tools/setup.sh dev-packages    what tests, types and lint take beside that: requirements-dev.lock
#   tools/setup.sh project         the project in it; works offline once the packages are there
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

# Both locks name everything that they need, so nothing is resolved: some versions of pip ask for "coverage[toml]"
# beside the "coverage" that is pinned, and take a newer one that has no hash here.
install_by_uv() {
    uv pip install --quiet --python .venv/bin/python --require-hashes -r "$1"
}

install_by_pip() {
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r "$1"
}

made_by_uv() {
    rm -rf .venv
    uv venv --quiet --no-project --python "$1" .venv && install_by_uv requirements.lock
}

made_by_pip() {
    rm -rf .venv
    if ! "$1" -m venv .venv; then
        say "$1 cannot make a virtual environment"
        say "hint: some systems ship that part apart, often as a package named python3-venv"
        return 1
    fi
    install_by_pip requirements.lock
}

is_installed() {
    cmp -s "$1" ".venv/$1" && .venv/bin/python -c '' 2>/dev/null
}

packages() {
    if is_installed requirements.lock; then
        return # only the file's time has changed
    fi
    python=$(find_python)
    if command -v uv >/dev/null && made_by_uv "$python"; then
        say "installed the packages to run it with uv"
    else
        say "installing the packages to run it with pip; this takes a minute, once"
        made_by_pip "$python"
    fi
    cp requirements.lock .venv/requirements.lock
}

dev_packages() {
    if is_installed requirements-dev.lock; then
        return
    fi
    if command -v uv >/dev/null && install_by_uv requirements-dev.lock; then
        say "added the packages to test it with uv"
    elif .venv/bin/python -m pip --version >/dev/null 2>&1; then
        say "adding the packages to test it with pip; this takes a minute, once"
        install_by_pip requirements-dev.lock
    else
        say ".venv was made by uv, which is not on PATH or cannot install now"
        say "hint: put uv on PATH, or make it anew without: make clean"
        return 1
    fi
    cp requirements-dev.lock .venv/requirements-dev.lock
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
dev-packages) dev_packages ;;
project) project ;;
*)
    say "usage: tools/setup.sh packages|dev-packages|project"
    exit 2
    ;;
esac
