"""Forgetting in a bucket that keeps earlier versions of objects: these go too, or the command says what is left."""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.features import FEATURES
from storyframes.store import catalogue
from storyframes.store.layout import create_store, open_storage
from storyframes.store.publish import FeatureWriter
from tasks.forgetting import object_versions
from tasks.study.load import load_study
from tasks.study.study_identity import remember_study

SESSIONS = ("p01-s01", "p02-s01", "p02-s010")


@pytest.fixture
def bucket(s3: Mapping[str, str], request: pytest.FixtureRequest) -> Any:
    """A bucket with versioning, as boto3 has it."""
    import boto3

    name = request.node.name.replace("_", "-")[:60].strip("-")
    resource = boto3.resource("s3", endpoint_url=s3["AWS_ENDPOINT"], region_name="us-east-1")
    made = resource.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    made.Versioning().enable()
    return made


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return Path(shutil.copytree("demo/study", tmp_path / "study"))


def fill(study: Path, url: str) -> None:
    """A store whose sessions have two versions each, the older one removed."""
    storage = create_store(url)
    for seed in (1, 2):
        for session in SESSIONS:
            with FeatureWriter(storage, session, FEATURES["frames"]) as out:
                out.write("time", np.arange(20) / 15)
                out.publish(f"{seed}" * 64, {"inputs": {}})
        catalogue.compact(storage)
    remember_study(storage, load_study(study))


def forget(study: Path, url: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["forget", str(study), url, *arguments])


def earlier(bucket: Any, prefix: str = "") -> list[str]:
    """The objects of which the bucket has earlier versions or delete markers, without a prefix."""
    versions = [item for item in bucket.object_versions.filter(Prefix=prefix) if not item.is_latest or not item.size]
    return sorted({item.object_key.removeprefix(prefix) for item in versions})


def check_permissions(s3: Mapping[str, str], after: bytes) -> None:
    """Let moto's server check who may do what, after so many requests."""
    url, head = f"{s3['AWS_ENDPOINT']}/moto-api/reset-auth", {"Content-Type": "text/plain"}
    urllib.request.urlopen(urllib.request.Request(url, after, head)).close()


def test_earlier_versions_of_the_forgotten_go_and_those_of_others_stay(study: Path, bucket: Any) -> None:
    url = f"s3://{bucket.name}/lab/features"
    fill(study, url)
    fill(study, f"s3://{bucket.name}/lab/features2")
    before = earlier(bucket, "lab/features/")
    assert "catalogue.parquet" in before
    dry = json.loads(forget(study, url, "p02-s01", "--dry-run", "--json").stdout)
    assert [trace for trace in dry["removed"] if "p02-s01/frames/current.json?versionId=" in trace["where"]]
    assert earlier(bucket, "lab/features/") == before
    done = forget(study, url, "p02-s01")
    assert (done.exit_code, done.exception) == (0, None), done.stderr
    assert earlier(bucket, "lab/features/") == [name for name in before if name.startswith(("p01-s01/", "p02-s010/"))]
    assert not [*bucket.object_versions.filter(Prefix="lab/features/p02-s01/")]
    assert [*bucket.object_versions.filter(Prefix="lab/features2/p02-s01/")]
    receipt = next(study.glob("forgotten-*.jsonl")).read_text()
    assert "earlier version of an object" in receipt
    assert "p02-s01" not in receipt


def test_a_version_that_is_locked_stays_hidden_and_is_said(study: Path, bucket: Any, s3: Mapping[str, str]) -> None:
    """Its delete marker stays too: without it the version would be the object again."""
    url = f"s3://{bucket.name}"
    fill(study, url)
    held = bucket.Object("p02-s01/frames/current.json")
    client = bucket.meta.client
    client.put_object_legal_hold(
        Bucket=bucket.name, Key=held.key, VersionId=held.version_id, LegalHold={"Status": "ON"}
    )
    done = forget(study, url, "p02-s01")
    assert done.exit_code == 1
    assert "p02-s01/frames/current.json" in done.stdout
    assert "1 version in all" in done.stdout
    assert open_storage(url).read(held.key) is None
    assert "p02-s01/frames/current.json" in earlier(bucket)
    client.put_object_legal_hold(
        Bucket=bucket.name, Key=held.key, VersionId=held.version_id, LegalHold={"Status": "OFF"}
    )
    assert forget(study, url).exit_code == 0
    assert not [*bucket.object_versions.filter(Prefix="p02-s01/")]


def test_who_may_not_list_versions_is_told_what_is_left(
    study: Path, bucket: Any, s3: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import boto3

    url = f"s3://{bucket.name}"
    fill(study, url)
    users = boto3.client("iam", endpoint_url=s3["AWS_ENDPOINT"], region_name="us-east-1")
    users.create_user(UserName="limited")
    rules = [
        {"Effect": "Allow", "Action": "s3:*", "Resource": "*"},
        {"Effect": "Deny", "Action": "s3:ListBucketVersions", "Resource": "*"},
    ]
    document = json.dumps({"Version": "2012-10-17", "Statement": rules})
    users.put_user_policy(UserName="limited", PolicyName="limited", PolicyDocument=document)
    key = users.create_access_key(UserName="limited")["AccessKey"]
    check_permissions(s3, b"0")
    try:
        with monkeypatch.context() as patch:
            patch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
            patch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
            done = forget(study, url, "p02-s01", "--json")
            assert not [path for path in open_storage(url).files() if path.startswith("p02-s01/")]
    finally:
        check_permissions(s3, b"inf")
    assert done.exit_code == 1
    assert "s3:ListBucketVersions" in json.loads(done.stdout)["kept"][0]
    assert "p02-s01/frames/current.json" in earlier(bucket)


def test_without_boto3_earlier_versions_are_not_known(study: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(study, url)
    monkeypatch.setattr(object_versions, "find_spec", lambda name: None)
    done = forget(study, url, "p02-s01", "--json")
    assert done.exit_code == 1
    assert "boto3" in json.loads(done.stdout)["kept"][0]
    assert not [path for path in open_storage(url).files() if path.startswith("p02-s01/")]
