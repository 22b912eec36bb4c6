"""The page about our settings has all of them, with their defaults."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import yaml

from makeway.api.objects.configuration import Configuration, MakewaySettings
from makeway.api.reading.manifests import load

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "configuration.md").read_text("utf-8")
_EXAMPLE = re.search(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)
assert _EXAMPLE is not None
EXAMPLE = _EXAMPLE[1]
NESTED = ("journal", "events")


def test_the_example_writes_out_every_setting_with_its_default() -> None:
    [manifest] = load("page.yaml", EXAMPLE.encode())
    assert isinstance(manifest.value, Configuration)
    assert manifest.value.makeway == MakewaySettings()
    names = [each.encode_name for each in msgspec.structs.fields(MakewaySettings)]
    assert list(yaml.safe_load(EXAMPLE)["makeway"]) == names


def test_the_tables_have_a_row_for_every_setting_with_its_default() -> None:
    written = yaml.safe_load(EXAMPLE)["makeway"]
    flat = {name: value for name, value in written.items() if name not in NESTED}
    flat |= {f"{name}.{key}": value for name in NESTED for key, value in written[name].items()}
    rows = dict(re.findall(r"^\| `([\w.]+)` \| `([^`]*)` \|", PAGE, re.M))
    assert rows == {name: yaml.safe_dump(value).split("\n")[0] for name, value in flat.items()}
