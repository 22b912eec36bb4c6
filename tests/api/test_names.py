"""Made names: legal, short enough, always the same; and the constants that users' manifests contain."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from makeway.api import names
from makeway.api.names import NAME_MAX, option_name, workload_name
from makeway.api.objects.meta import DNS_SUBDOMAIN

LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
NAMES = st.one_of(
    st.lists(LABELS, min_size=1, max_size=9).map(".".join),
    st.integers(1, NAME_MAX).map(lambda n: "a" * n),
    st.integers(120, NAME_MAX).map(lambda n: ("a." * n)[: n - 1] + "a"),
    st.integers(120, NAME_MAX).map(lambda n: ("b-" * n)[: n - 1] + "b"),
).filter(lambda name: len(name) <= NAME_MAX)
KIND_NAMES = st.from_regex(r"[A-Z][A-Za-z0-9]{0,40}", fullmatch=True).filter(str.isascii)
GROUPS = st.sampled_from(("", "batch", "ray.io", "kubeflow.org"))
UIDS = st.uuids().map(str)


def is_legal(name: str) -> bool:
    return len(name) <= NAME_MAX and re.fullmatch(DNS_SUBDOMAIN, name) is not None


def hash_of(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()[:5]


def test_a_workload_is_named_after_its_job() -> None:
    digest = hash_of("Job\nbatch\ntrain\n1234")
    assert workload_name("Job", "batch", "train", "1234") == f"job-train-{digest}"


def test_a_long_job_name_is_cut_and_nothing_dangles() -> None:
    name = "a" * 242 + ".b"  # "job-" and 243 characters are the 247 that stay; the last of them is the dot
    digest = hash_of("\n".join(("Job", "batch", name, "u")))
    assert workload_name("Job", "batch", name, "u") == f"job-{'a' * 242}-{digest}"


def test_an_option_is_named_after_its_parent_and_its_flavor() -> None:
    assert option_name("job-train-12345", "spot") == "job-train-12345-option-spot"


def test_a_name_that_is_taken_gets_the_hash_of_the_plain_one() -> None:
    plain = "job-train-option-spot"
    assert option_name("job-train", "spot", taken=True) == f"{plain}-{hash_of(plain)}"


def test_a_long_option_keeps_its_own_part_and_cuts_the_parent() -> None:
    parent, option = "p" * 250, "f" * 60 + "...g"  # the 63 characters that stay end in dots
    name = option_name(parent, option)
    tail = f"-option-{'f' * 60}-{hash_of(f'{parent}-option-{option}')}"
    assert name == "p" * (253 - len(tail)) + tail


def test_the_plain_form_is_used_up_to_the_last_character() -> None:
    fits = "p" * (253 - len("-option-spot"))
    assert option_name(fits, "spot") == f"{fits}-option-spot"
    assert len(option_name(fits + "p", "spot")) == 253
    assert not option_name(fits + "p", "spot").endswith("-option-spot")


@pytest.mark.property
@given(kind=KIND_NAMES, group=GROUPS, name=NAMES, uid=UIDS)
def test_workload_names_are_legal_and_repeatable(kind: str, group: str, name: str, uid: str) -> None:
    made = workload_name(kind, group, name, uid)
    assert is_legal(made)
    assert made == workload_name(kind, group, name, uid)


@pytest.mark.property
@given(parent=NAMES, option=NAMES, taken=st.booleans())
def test_option_names_are_legal_and_repeatable(parent: str, option: str, taken: bool) -> None:
    made = option_name(parent, option, taken=taken)
    assert is_legal(made)
    assert made == option_name(parent, option, taken=taken)


@pytest.mark.property
@given(parent=NAMES, option=NAMES)
def test_a_taken_name_is_another_name(parent: str, option: str) -> None:
    plain = option_name(parent, option)
    assume(plain == f"{parent}-option-{option}")
    assert option_name(parent, option, taken=True) != plain


def test_thousands_of_runs_of_one_long_named_job_hardly_collide() -> None:
    made = {workload_name("Job", "batch", "a" * 253, f"uid-{i}") for i in range(2000)}
    assert len(made) > 1990  # five hex digits: about two pairs in two thousand meet


def test_long_options_of_one_parent_are_told_apart_by_their_hash() -> None:
    made = {option_name("p" * 240, "f" * 63 + f"x{i}") for i in range(100)}
    assert len(made) == 100


def test_every_constant_is_a_key_that_kubernetes_takes() -> None:
    keys = [value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)]
    assert len(keys) > 25
    for key in keys:
        prefix, _, name = key.rpartition("/")
        assert prefix in ("", "kueue.x-k8s.io", "kubernetes.io", "makeway.dev")
        assert re.fullmatch(r"[a-z]([-.a-z]{0,61}[a-z])?", name), key
