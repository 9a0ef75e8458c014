"""The clients as their users have them: boto3, aws, rclone, mc."""

import os
import subprocess
from pathlib import Path

import boto3
from botocore.config import Config

from .server import ACCESS, SECRET, clean_environment, die_with_parent


def s3(url, access=ACCESS, secret=SECRET, **config):
    """A boto3 client with its defaults (checksums by aws-chunked trailers), without retries that hide failures."""
    settings = {"retries": {"max_attempts": 1}, "max_pool_connections": 80, "s3": {"addressing_style": "path"}} | config
    return boto3.client(
        "s3",
        endpoint_url=url,
        aws_access_key_id=access,
        aws_secret_access_key=secret,
        region_name="us-east-1",
        config=Config(**settings),
    )


def run(*args, env, timeout=1200, check=True, **more):
    done = subprocess.run(
        list(map(str, args)), env=env, capture_output=True, text=True, timeout=timeout, preexec_fn=die_with_parent, **more
    )
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, args))}: exit {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done


class Aws:
    """The AWS command line."""

    def __init__(self, url, home):
        # Left alone it presigns in an older way in this region.
        config = Path(home) / "aws-config"
        config.write_text("[default]\ns3 =\n  signature_version = s3v4\n")
        self.env = clean_environment(
            HOME=home,
            AWS_CONFIG_FILE=config,
            AWS_ACCESS_KEY_ID=ACCESS,
            AWS_SECRET_ACCESS_KEY=SECRET,
            AWS_DEFAULT_REGION="us-east-1",
            AWS_ENDPOINT_URL=url,
            AWS_MAX_ATTEMPTS="1",
            AWS_PAGER="",
        )

    def __call__(self, *args, **more):
        return run("aws", *args, env=self.env, **more)


class Rclone:
    """rclone with a remote named `koine:`."""

    def __init__(self, url, home):
        self.env = clean_environment(
            HOME=home,
            RCLONE_CONFIG_KOINE_TYPE="s3",
            RCLONE_CONFIG_KOINE_PROVIDER="Other",
            RCLONE_CONFIG_KOINE_ENDPOINT=url,
            RCLONE_CONFIG_KOINE_ACCESS_KEY_ID=ACCESS,
            RCLONE_CONFIG_KOINE_SECRET_ACCESS_KEY=SECRET,
            RCLONE_RETRIES="1",
            RCLONE_LOW_LEVEL_RETRIES="1",
        )

    def __call__(self, *args, **more):
        return run("rclone", *args, env=self.env, **more)


class Mc:
    """MinIO's client with an alias named `koine`."""

    def __init__(self, url, home):
        program = os.environ.get("MC_PROGRAM")
        if not program:
            raise RuntimeError("MC_PROGRAM must name mc; `./x test tools` builds it")
        self.program = program
        host = url.removeprefix("http://")
        self.env = clean_environment(HOME=home, MC_HOST_koine=f"http://{ACCESS}:{SECRET}@{host}")

    def __call__(self, *args, **more):
        return run(self.program, "--quiet", "--no-color", *args, env=self.env, **more)
