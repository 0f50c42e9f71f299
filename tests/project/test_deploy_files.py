"""The files of deploy/ say what they must, and what the parts they are for understand."""

from __future__ import annotations

import ast
import errno
import importlib.metadata
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from support.servers.deployment_server import DEPLOY, settings_of

from flows.clusters.kubernetes import LABELS

ROOT = DEPLOY.parent
GIVEN = {
    "POSTGRES_PASSWORD": "p",
    "PREFECT_AUTH": "user:p",
    "STORYFRAMES_STUDY": "/srv/study",
    "STORYFRAMES_FEATURES": "/srv/features",
    "STORYFRAMES_CACHE": "/srv/cache",
    "STORYFRAMES_CONFIG": "/srv/storyframes.toml",
    "STORYFRAMES_TLS": "/srv/tls",
    "STORYFRAMES_SERVER": "/srv/prefect-server",
    "STORYFRAMES_TIMEZONE": "UTC",
}


def compose() -> dict:
    """The compose file with GIVEN filled in, as compose does it."""

    def fill(found: re.Match[str]) -> str:
        name, how, text = found.groups()
        return GIVEN[name] if how == "?" else GIVEN.get(name, text)

    text = re.sub(r"\$\{(\w+):([-?])([^}]*)\}", fill, (DEPLOY / "compose.yaml").read_text())
    assert "${" not in text  # every variable is required or has a default
    return yaml.safe_load(text)


def test_every_setting_of_prefect_exists() -> None:
    from prefect.settings import Settings
    from prefect.settings.legacy import _get_settings_fields

    known = set(_get_settings_fields(Settings))
    named = {name for file in ("prefect-server.env", "prefect-worker.env") for name in settings_of(file)}
    named |= {name for file in ("secrets.env.example", "client.env.example") for name in settings_of(file)}
    named |= {name for service in compose()["services"].values() for name in service.get("environment", {})}
    named |= set(re.findall(r"PREFECT_[A-Z_]+(?==)", "".join(p.read_text() for p in DEPLOY.glob("systemd/*"))))
    prefect = {name for name in named if name.startswith("PREFECT_")}
    assert len(prefect) > 10
    assert prefect <= known


def test_events_and_runs_are_not_kept_for_ever() -> None:
    from datetime import timedelta

    from prefect.settings import Settings

    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings_of("prefect-server.env").items():
            patch.setenv(name, value)
        server = Settings().server
    assert server.events.retention_period == timedelta(days=7)
    assert server.services.db_vacuum.enabled_vacuum_types == {"events", "flow_runs", "orphans"}
    assert server.services.db_vacuum.retention_period == timedelta(days=90)


def test_containers_are_locked_up() -> None:
    services = compose()["services"]
    for name, service in services.items():
        assert int(service["user"].split(":")[0]) > 0, name
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        of_this_checkout = "localhost/storyframes-worker:" in service["image"]
        assert of_this_checkout or re.search(r"@sha256:[0-9a-f]{64}$", service["image"]), name
        assert not service.get("privileged"), name
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), name
        for volume in service.get("volumes", []):
            if isinstance(volume, dict):  # a missing folder is an error, not a new one that root owns
                assert volume["bind"] == {"create_host_path": False}, name
        assert "healthcheck" in service or name in ("deploy", "extractor"), name  # these end when they fail
    assert compose()["networks"]["database"]["internal"]
    assert [name for name, service in services.items() if "database" in service["networks"]] == ["database", "server"]


def test_dask_in_containers_asks_for_certificates() -> None:
    from flows.clusters.settings import ExistingScheduler, load_cluster

    services = compose()["services"]
    cluster = load_cluster(str(DEPLOY / "compose-cluster.yaml"))
    assert isinstance(cluster, ExistingScheduler)
    assert cluster.tls
    files = [
        "--tls-ca-file",
        str(cluster.tls.ca),
        "--tls-cert",
        str(cluster.tls.cert),
        "--tls-key",
        str(cluster.tls.key),
    ]
    for name in ("scheduler", "extractor"):
        assert " ".join(files) in " ".join(services[name]["entrypoint"]), name
    assert "--protocol tls" in " ".join(services["scheduler"]["entrypoint"])
    assert cluster.address in services["extractor"]["entrypoint"]
    for name in ("scheduler", "extractor", "worker"):
        assert any(isinstance(it, dict) and it["target"] == "/tls" for it in services[name]["volumes"]), name


def test_only_pods_of_the_run_reach_each_other() -> None:
    policy = yaml.safe_load((DEPLOY / "kubernetes/network-policy.yaml").read_text())
    assert policy["spec"]["podSelector"] == {"matchLabels": LABELS}
    (rule,) = policy["spec"]["ingress"]
    assert {"podSelector": {"matchLabels": LABELS}} in rule["from"]
    assert all("podSelector" in peer for peer in rule["from"])


def test_no_secret_is_in_a_file() -> None:
    for path in DEPLOY.rglob("*"):
        if path.is_file():
            for found in re.findall(
                r"(?im)^[^#\n]*(?:password|auth\w*)[ \t]*(?:=(?!=)|:)[ \t]*([^?\s]\S*)", path.read_text()
            ):
                assert found.startswith("${") or "PASSWORD" in found, f"{path.name}: {found}"


@pytest.mark.needs("systemd-analyze")
def test_the_units_are_what_systemd_understands(tmp_path: Path) -> None:
    for unit in (DEPLOY / "systemd").glob("*.service"):
        # The program and the user that an installation has.
        text = re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text())
        (tmp_path / unit.name).write_text(re.sub(r"(?m)^(User|Group)=.*", r"\1=daemon", text))
        done = subprocess.run(["systemd-analyze", "verify", str(tmp_path / unit.name)], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("name", ["server", "worker"])
def test_the_units_are_confined(name: str) -> None:
    """Exposure at most 2.5 of 10."""
    unit = DEPLOY / f"systemd/storyframes-{name}.service"
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=25", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_images_that_others_made_are_named_by_digest() -> None:
    for file in (ROOT / "containers").rglob("Containerfile"):
        text = file.read_text()
        bases = re.findall(r"(?m)^(?:FROM|ARG BASE=)\s*(\S+)", text)
        assert [base for base in bases if "@sha256:" not in base and base != "${BASE}"] == [], file


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_package_of_the_pipeline_has_its_hashes_and_the_version_of_the_constraints() -> None:
    versions = re.findall(r"(?m)^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text())
    constraints = {normalized(name): version for name, version in versions}
    entries = re.split(r"(?m)^(?=[\w.-]+==)", (DEPLOY / "requirements.txt").read_text())[1:]
    locked = {}
    for entry in entries:
        name, version = re.match(r"([\w.-]+)==(\S+)", entry).groups()
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), name
        assert version == constraints.get(normalized(name), version), name
        locked[normalized(name)] = version
    assert set(needed_by("storyframes", {"pipeline"})) <= set(locked) | {"storyframes"}


def needed_by(name: str, extras: set[str], found: dict[str, set[str]] | None = None) -> dict[str, set[str]]:
    """The installed distributions that one needs, itself and what they need included, by their normalized names."""
    found = {} if found is None else found
    missing = extras | {""}
    if name in found and missing <= found[name]:
        return found
    found[name] = found.get(name, set()) | missing
    for line in importlib.metadata.requires(name) or ():
        requirement = Requirement(line)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in missing):
            needed_by(normalized(requirement.name), set(requirement.extras), found)
    return found


@pytest.mark.needs("systemd-analyze")
def test_a_slip_in_a_unit_is_seen(tmp_path: Path) -> None:
    unit = tmp_path / "slip.service"
    unit.write_text("[Service]\nExecStart=/bin/true\nNoNewPrivilege=yes\n")
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert "NoNewPrivilege" in done.stderr


def test_automations_are_what_prefect_understands() -> None:
    from prefect.events.schemas.automations import AutomationCore

    text = "".join(path.read_text().split("automations:\n")[1] for path in sorted(DEPLOY.glob("automations/*.yaml")))
    text = text.replace("BLOCK_ID", "00000000-0000-0000-0000-000000000001")
    automations = {it.name: it for it in map(AutomationCore.model_validate, yaml.safe_load(text))}
    assert set(automations) == {"storyframes failed", "storyframes silent", "storyframes dead runs"}
    expected = automations["storyframes failed"].trigger.expect
    assert {"prefect.flow-run.Failed", "prefect.flow-run.PartialSuccess"} <= expected
    assert automations["storyframes silent"].trigger.within.total_seconds() == 26 * 3600


@pytest.mark.slow
def test_the_runbook_quotes_real_messages() -> None:
    messages = [message for row in _failure_rows() for message in re.findall(r"`([^`]+)`", row.split("|")[1])]
    ours = [message for message in messages if not message.startswith("Validation failed")]  # that one is Prefect's
    said = [*_messages_of_the_code(), *(os.strerror(number).lower() for number in errno.errorcode)]
    assert len(ours) > 20
    for message in ours:
        for part in map(_without_ends, message.split("…")):
            assert any(part in text for text in said), f"{part!r} of {message!r}"


def _failure_rows() -> list[str]:
    text = (ROOT / "docs/operations.md").read_text().split("## What failures mean")[1].split("\n## ")[0]
    return [line for line in text.splitlines() if line.startswith("| `")]


def _without_ends(part: str) -> str:
    """… in the runbook stands for what the code fills in, whole sentences too."""
    return part.strip(" :;,()")


def _messages_of_the_code() -> list[str]:
    """Every string of the code, with … for what is filled in."""
    texts = []
    folders = ("storyframes", "tasks", "flows", "plugins/storyframes-empathy/storyframes_empathy")
    for path in [path for folder in folders for path in (ROOT / folder).rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
                texts.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return texts
