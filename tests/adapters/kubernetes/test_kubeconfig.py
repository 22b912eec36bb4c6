"""Kubeconfig files: targets, refusals, and all problems reported at once."""

from __future__ import annotations

import base64
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from makeway.adapters.kubernetes.kubeconfig import ApiTarget, KubeconfigRefused, kubeconfig_paths, read_target
from tests.soaking import InTime

PEM = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def config(
    *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, current: str = "here",
    **context: Any,
) -> dict[str, Any]:  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "clusters": [{"name": "c", "cluster": {"server": "https://example.com:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": {"token": "t0ken"} if user is None else user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", **context}}],
    }


def put(path: Path, tree: Any) -> Path:
    path.write_text(tree if isinstance(tree, str) else yaml.safe_dump(tree), "utf-8")
    return path


def target(tmp_path: Path, **changes: Any) -> ApiTarget:
    return read_target([put(tmp_path / "config", config(**changes))])


def refusal(path: Path, *, context: str = "") -> KubeconfigRefused:
    with pytest.raises(KubeconfigRefused) as refused:
        read_target([path], context, must_exist=True)
    return refused.value


def test_a_context_becomes_a_target(tmp_path: Path) -> None:
    found = target(tmp_path, namespace="team", cluster={"certificate-authority-data": encoded(PEM)})
    assert found == ApiTarget(
        server="https://example.com:6443", namespace="team", authority=PEM, token="t0ken", origin="here"
    )


def test_secrets_do_not_show() -> None:
    assert "s3cret" not in repr(ApiTarget("https://x", token="s3cret", key=b"s3cret", proxy="http://u:s3cret@p"))


def test_without_a_namespace_it_is_default_and_a_server_may_be_one_of_a_proxy(tmp_path: Path) -> None:
    found = target(tmp_path, cluster={"server": "https://proxy.example.com/k8s/clusters/c-1/"})
    assert (found.namespace, found.server) == ("default", "https://proxy.example.com/k8s/clusters/c-1")


def test_relative_paths_begin_at_the_file(tmp_path: Path) -> None:
    for name in ("ca.crt", "me.crt", "me.key"):
        (tmp_path / name).write_bytes(name.encode())
    user = {"client-certificate": "me.crt", "client-key": str(tmp_path / "me.key"), "tokenFile": "token"}
    found = target(tmp_path, cluster={"certificate-authority": "ca.crt"}, user=user)
    assert (found.authority, found.certificate, found.key) == (b"ca.crt", b"me.crt", b"me.key")
    assert found.token_file == str(tmp_path / "token")


def test_data_counts_before_a_file_and_a_token_file_before_a_token(tmp_path: Path) -> None:
    cluster = {"certificate-authority": "gone", "certificate-authority-data": encoded(PEM)}
    found = target(tmp_path, cluster=cluster, user={"token": "old", "tokenFile": "/run/token"})
    assert (found.authority, found.token, found.token_file) == (PEM, "", "/run/token")


def test_what_else_a_cluster_and_a_user_may_say(tmp_path: Path) -> None:
    cluster = {"insecure-skip-tls-verify": True, "tls-server-name": "inside", "proxy-url": "http://proxy:3128"}
    found = target(tmp_path, cluster=cluster, user={"token": "t", "as": "anna", "as-groups": ["a", "b"]})
    assert (found.insecure, found.server_name, found.proxy) == (True, "inside", "http://proxy:3128")
    assert found.headers == {"Impersonate-User": ["anna"], "Impersonate-Group": ["a", "b"]}


def test_of_several_files_the_first_to_say_something_counts(tmp_path: Path) -> None:
    first = put(tmp_path / "first", {"users": [{"name": "u", "user": {"token": "first"}}]})
    second = put(tmp_path / "second", config())
    third = put(tmp_path / "third", config(current="other", cluster={"server": "https://third"}))
    found = read_target([first, tmp_path / "missing", second, third])
    assert (found.token, found.server, found.origin) == ("first", "https://example.com:6443", "here")


def test_the_environment_lists_files(tmp_path: Path) -> None:
    assert kubeconfig_paths({"KUBECONFIG": "/a:/b::"}, tmp_path) == [Path("/a"), Path("/b")]
    assert kubeconfig_paths({}, tmp_path) == [tmp_path / ".kube" / "config"]


def test_a_context_can_be_named_and_json_is_yaml(tmp_path: Path) -> None:
    tree = config(current="")
    path = put(tmp_path / "config", tree)
    assert read_target([path], "here").token == "t0ken"
    assert refusal(path).problems == ("the kubeconfig has no current-context",)
    assert refusal(path).hint == "name one with --context: here"
    assert refusal(path, context="her").hint == "did you mean here?"


@pytest.mark.parametrize("user", [{"exec": {"command": "aws"}}, {"auth-provider": {"name": "gcp"}}, {"username": "u"}])
def test_plugins_are_refused_and_not_passed_over(tmp_path: Path, user: dict[str, Any]) -> None:
    found = refusal(put(tmp_path / "config", config(user={"token": "t", **user})))
    assert f"`{next(iter(user))}`" in found.problems[0]
    assert "makeway" in found.problems[0] or "no longer" in found.problems[0]
    assert found.hint.startswith("put a token into the user's entry")


def test_no_credentials_go_over_plain_http(tmp_path: Path) -> None:
    found = refusal(put(tmp_path / "config", config(cluster={"server": "http://example.com"})))
    assert found.problems[0].endswith("server http://example.com is plain HTTP, over which no credentials are sent")
    assert target(tmp_path, cluster={"server": "http://127.0.0.1:8001"}, user={}).token == ""


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    cluster = {"server": "example.com:6443", "certificate-authority-data": "***"}
    user = {"exec": {"command": "x"}, "client-certificate": "gone.crt", "token": 7}
    found = refusal(put(tmp_path / "config", config(cluster=cluster, user=user, namespace=["a"])))
    assert len(found.problems) == 6
    assert any("server: expected a URL like https://host:6443, got `example.com:6443`" in p for p in found.problems)
    assert any("certificate-authority-data: is not base64" in p for p in found.problems)
    assert any("gone.crt: No such file or directory" in p for p in found.problems)


def test_a_context_that_leads_nowhere(tmp_path: Path) -> None:
    found = refusal(put(tmp_path / "config", config(cluster=None) | {"clusters": [], "users": []}))
    assert [each.partition(": ")[2].partition(": ")[2] for each in found.problems] == [
        "there is no cluster `c`", "there is no user `u`",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [", "config:1: "),
        ("- a\n", "is no kubeconfig"),
        ("clusters: {}\nusers: 3\n", "users: expected a list"),
        ("contexts: [3]\n", "contexts[0]: expected a name and a context"),
        ("contexts: [{name: a, context: []}, {name: b, context: 4}]", "contexts[1]: expected a name and a context"),
        ("", "the kubeconfig has no current-context"),
        ("current-context: a\ncontexts: [{name: a, context: {cluster: c}}]\nclusters: [{name: c}]\n", "got ``"),
    ],
)
def test_files_that_are_none(tmp_path: Path, text: str, told: str) -> None:
    assert told in "\n".join(refusal(put(tmp_path / "config", text)).problems)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    assert refusal(tmp_path / "gone").problems == (f"{tmp_path / 'gone'}: no such file",)
    assert "cannot be read" in refusal(tmp_path).problems[0]
    with pytest.raises(KubeconfigRefused, match="there is no kubeconfig: looked for"):
        read_target([tmp_path / "gone"])


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "config"
    with open(path, "wb") as file:
        file.truncate(9 * 2**20)
    assert "larger than the 8 MiB" in refusal(path).problems[0]


@pytest.mark.property
def test_whatever_the_file_is_it_is_a_target_or_a_refusal(
    tmp_path: Path, fuzz_inputs: int, fuzz_seed: int, in_time: InTime
) -> None:
    """Bytes of a valid file, some of them replaced, doubled or cut."""
    path, sound = tmp_path / "config", yaml.safe_dump(config(namespace="team")).encode()
    for seed in in_time(range(fuzz_seed, fuzz_seed + fuzz_inputs // 10)):
        dice, data = random.Random(seed), bytearray(sound)
        for _ in range(dice.randint(1, 6)):
            at = dice.randrange(len(data))
            data[at : at + dice.randint(0, 9)] = dice.choice(
                [b"", b"[", b"{", b": ", b"- ", b"\xff", b"3", b"\n", b"&a *a"]
            )
        path.write_bytes(bytes(data))
        with suppress(KubeconfigRefused):
            assert read_target([path]).server.startswith("http"), f"seed {seed}"
