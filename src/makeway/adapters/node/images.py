"""The command that is run for an image. Nothing is pulled: ``makeway.images`` maps images to commands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from makeway.adapters.node.environment import NotThere
from makeway.api.objects.pods import Container
from makeway.api.reading.structure import short

NOT_RUNNABLE = "ImageNotRunnable"
HINT = "give the container a command, or map the image to one in makeway.images of the configuration file"
CHARS_MAX = 1024  # longer names are not matched against globs
_BUILT_IN: Mapping[str, Sequence[str]] = {  # if the container has no command of its own
    "*/pause": ("sleep", "infinity"), "*/pause:*": ("sleep", "infinity"), "pause:*": ("sleep", "infinity"),
    "*/sleep": ("sleep",), "*/sleep:*": ("sleep",), "sleep:*": ("sleep",),
}  # fmt: skip


def words_of(container: Container, images: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the words of the command, before variables are replaced. Raises NotThere with ``ImageNotRunnable``.

    A mapped image is a prefix to all words of the container, like an environment that it runs in. The longest matching
    glob wins, of equally long ones the first in the alphabet.
    """
    prefix = _mapped(container.image, images)
    if prefix is not None:
        return (*prefix, *container.command, *container.args)
    if container.command:
        return (*container.command, *container.args)
    built_in = _mapped(container.image, _BUILT_IN)
    if built_in is None:
        raise NotThere(f'image "{short(container.image)}" is not run on this machine: {HINT}', NOT_RUNNABLE)
    return tuple(built_in) if len(built_in) > 1 else (*built_in, *container.args)


def _mapped(image: str, images: Mapping[str, Sequence[str]]) -> Sequence[str] | None:
    found = [glob for glob in images if _pattern(glob).fullmatch(image)] if len(image) <= CHARS_MAX else []
    return images[min(found, key=lambda glob: (-len(glob), glob))] if found else None


@lru_cache(maxsize=1000)
def _pattern(glob: str) -> re.Pattern[str]:
    parts = {"*": ".*", "?": "."}
    return re.compile("".join(parts.get(letter, re.escape(letter)) for letter in glob), re.DOTALL)
