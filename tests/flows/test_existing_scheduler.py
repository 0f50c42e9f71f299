"""A Dask scheduler that somebody else has started: who may speak to it, and what proves it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.messages import naming
from support.processes import wait_for
from support.stores import catalogue_rows

from flows.clusters.connection import ClusterError, Connection, existing_scheduler, wait_for_workers
from flows.clusters.dask_cluster import dask_cluster
from flows.clusters.settings import Certificates, ClusterSettingsError, ExistingScheduler, load_cluster

ROOT = Path(__file__).parents[2]


def test_a_scheduler_that_lets_everybody_in_must_be_asked_for(tmp_path: Path) -> None:
    plain = "kind: address\naddress: tcp://node1:8786\n"
    (tmp_path / "c.yaml").write_text(plain)
    for text in ("tcp://node1:8786", str(tmp_path / "c.yaml")):
        with pytest.raises(ClusterSettingsError, match="proof of identity"):
            load_cluster(text)
    (tmp_path / "c.yaml").write_text(plain + "insecure: true\n")
    assert load_cluster(str(tmp_path / "c.yaml")).insecure
    (tmp_path / "c.yaml").write_text(plain + "insecure: true\ntls: {ca: a, cert: b, key: c}\n")
    with pytest.raises(ClusterSettingsError, match=naming("'tls'", "tls://")):
        load_cluster(str(tmp_path / "c.yaml"))


def test_certificates_lie_beside_the_file_that_names_them(tmp_path: Path) -> None:
    from flows.settings import load_settings

    (tmp_path / "c.yaml").write_text("kind: address\naddress: tls://n:1\ntls: {ca: ca.pem, cert: a/c.pem, key: /k}\n")
    tls = load_cluster(str(tmp_path / "c.yaml")).tls
    assert tls == Certificates(ca=tmp_path / "ca.pem", cert=tmp_path / "a/c.pem", key="/k")
    (tmp_path / "c.toml").write_text(
        '[cluster]\nkind = "address"\naddress = "tls://n:1"\ntls = {ca = "ca.pem", cert = "a/c.pem", key = "/k"}\n'
    )
    assert load_settings(tmp_path / "c.toml").cluster.tls == tls


@pytest.fixture(scope="module")
def somebody_elses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a cluster's file; the scheduler and two workers are started as docs/operations.md says."""
    folder = tmp_path_factory.mktemp("somebody")
    with cluster_in(folder, "--nworkers 2 --nthreads 1 --resources CPU=1"):
        yield folder


@contextlib.contextmanager
def cluster_in(folder: Path, workers: str) -> Iterator[subprocess.Popen[bytes]]:
    """A scheduler, which is given, and its workers; ``cluster.yaml`` in the folder names it."""
    text = (ROOT / "docs/operations.md").read_text()
    (make,) = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ openssl req")]
    subprocess.run(make, shell=True, cwd=folder, check=True, capture_output=True)
    tls = "--tls-ca-file cert.pem --tls-cert cert.pem --tls-key key.pem"
    scheduler = f"scheduler --host 127.0.0.1 --port 0 --no-dashboard --scheduler-file s.json --protocol tls {tls}"
    worker = f"worker --scheduler-file s.json {workers} --no-dashboard {tls}"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    started = []
    try:
        for command in (scheduler, worker):
            with (folder / f"{command.split()[0]}.log").open("wb") as log:
                started.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "dask", *command.split()],
                        cwd=folder,
                        env=environment,
                        stdout=log,
                        stderr=log,
                    )
                )
            wait_for((folder / "s.json").exists)
        address = json.loads((folder / "s.json").read_text())["address"]
        (folder / "cluster.yaml").write_text(
            f"kind: address\naddress: {address}\ntls: {{ca: cert.pem, cert: cert.pem, key: key.pem}}\n"
        )
        yield started[0]
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(60)


@pytest.mark.needs("openssl")
@pytest.mark.slow
def test_an_existing_scheduler_does_the_work(
    somebody_elses: Path, study_copy: Path, tmp_path: Path, shared_server
) -> None:
    cluster = somebody_elses / "cluster.yaml"
    command = ["extract", study_copy, tmp_path / "features", "--features", "openface", "--cluster", cluster]
    result = subprocess.run(
        [sys.executable, "-m", "flows.cli", *map(str, command)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | shared_server,
    )
    assert result.returncode == 0, result.stderr
    assert "6 extracted" in result.stdout
    with dask_cluster(load_cluster(str(cluster)), [{"CPU": 1}]) as connection, connection.client() as client:
        assert len(client.scheduler_info()["workers"]) == 2  # it is somebody else's, and goes on


@pytest.mark.needs("openssl")
@pytest.mark.slow
def test_a_scheduler_that_is_killed_is_one_sentence_and_what_was_published_is_in_the_tables(
    study_copy: Path, tmp_path: Path, shared_server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.clusters.connection.SAY_EVERY_S", 0.1)
    tool = tmp_path / "FeatureExtraction"
    tool.write_text("#!/bin/sh\ntouch $0.runs\nexec sleep 1000\n")
    tool.chmod(0o755)
    config = tmp_path / "c.toml"
    config.write_text(f'[openface]\nbackend = "binary"\nbinary = "{tool}"\nloads = ["{tool}"]\n')
    command = ["extract", study_copy, tmp_path / "features", "--features", "openface", "--config", config]
    with cluster_in(tmp_path, "--nworkers 1 --nthreads 2 --resources CPU=2") as scheduler:
        address = json.loads((tmp_path / "s.json").read_text())["address"]
        run = subprocess.Popen(
            [sys.executable, "-m", "flows.cli", *map(str, command), "--cluster", str(tmp_path / "cluster.yaml")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | shared_server,
        )
        wait_for((tmp_path / "FeatureExtraction.runs").exists)
        with existing_scheduler(load_cluster(str(tmp_path / "cluster.yaml")), [{"CPU": 1}]) as connection:
            said: list[str] = []
            pool = ThreadPoolExecutor(1)
            waiting = pool.submit(wait_for_workers, connection, [{"GPU": 1}], 600, warn=said.append)
        wait_for(lambda: said or waiting.done())
        scheduler.kill()
        printed, errors = run.communicate()
        with pytest.raises(ClusterError, match=f"the Dask scheduler at {address} is not reached any more"):
            waiting.result()
    assert (run.returncode, "Traceback" in errors) == (1, False), errors
    assert (printed + errors).count(f"the Dask scheduler at {address} ended") == 1
    assert len(catalogue_rows(tmp_path / "features")) >= 1  # the frame times that were published


@pytest.mark.needs("openssl")
@pytest.mark.slow
def test_certificates_of_others_open_nothing(somebody_elses: Path, tmp_path: Path) -> None:
    from distributed.security import Security

    scheduler = load_cluster(str(somebody_elses / "cluster.yaml"))
    with pytest.raises(OSError, match="TLS certificate does not match"):
        Connection(scheduler.address, Security.temporary()).client(timeout=3)
    mine = Security.temporary()
    for name, text in (("cert", mine.tls_ca_file), ("key", mine.tls_client_key)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    tls = Certificates(ca=tmp_path / "cert", cert=tmp_path / "cert", key=tmp_path / "key")
    with (
        pytest.raises(ClusterError, match="does not know these certificates"),
        dask_cluster(scheduler.model_copy(update={"tls": tls, "wait_s": 3}), []),
    ):
        pass


@pytest.mark.parametrize(
    ("name", "content", "mode", "message"),
    [
        ("key", None, 0o600, r"cannot be used \(.*No such file"),
        ("cert", "not a certificate", 0o600, "the certificates for tls://node1:8786 cannot be used"),
        ("key", "", 0o604, r"key: everybody may read or change this private key: chmod 600"),
    ],
)
def test_certificates_that_cannot_be_used(tmp_path: Path, name: str, content, mode: int, message: str) -> None:
    from distributed.security import Security

    mine = Security.temporary()
    files = {"ca": mine.tls_ca_file, "cert": mine.tls_client_cert, "key": mine.tls_client_key}
    for file, text in (files | {name: content}).items():
        if text is not None:
            (tmp_path / file).write_text(text)
            (tmp_path / file).chmod(mode)
    tls = {file: tmp_path / file for file in files}
    scheduler = ExistingScheduler(kind="address", address="tls://node1:8786", tls=tls)
    with pytest.raises(ClusterError, match=message), dask_cluster(scheduler, []):
        pass


def test_tls_without_certificates() -> None:
    with (
        pytest.raises(ClusterError, match=naming("no certificates", "tls://node1:8786", "'tls'")),
        dask_cluster(load_cluster("tls://node1:8786"), []),
    ):
        pass
