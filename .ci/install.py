"""Install packages with uv, which takes a quarter of pip's processor time, and with pip where uv cannot.

    python .ci/install.py ARGUMENT...        the arguments of `pip install`

uv does not read pip's configuration, so its indexes, certificates, proxy and constraints are passed on. Settings of uv
in the environment come first. pip installs where the configuration has a key without a counterpart, where the package
uv is not installed, and where uv fails.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec

# The variables of uv by the keys of pip.
COUNTERPARTS = {
    "cert": ("SSL_CERT_FILE",),
    "constraint": ("UV_CONSTRAINT", "UV_BUILD_CONSTRAINT"),
    "default-timeout": ("UV_HTTP_TIMEOUT",),
    "extra-index-url": ("UV_INDEX",),
    "find-links": ("UV_FIND_LINKS",),
    "index-url": ("UV_DEFAULT_INDEX",),
    "proxy": ("ALL_PROXY",),
    "timeout": ("UV_HTTP_TIMEOUT",),
    "trusted-host": ("UV_INSECURE_HOST",),
}
WITHOUT_EFFECT = {"break-system-packages", "cache-dir", "disable-pip-version-check", "no-cache-dir", "no-color"} | {
    "no-compile", "no-input", "progress-bar", "quiet", "require-virtualenv", "retries", "root-user-action", "verbose"
}  # fmt: skip
PRECEDENCE = ("global", "install", ":env:")
# As pip does: the best version of all indexes, and the certificates of the system.
LIKE_PIP = {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_NATIVE_TLS": "1", "UV_SYSTEM_CERTS": "1"}


def uv_variables(printed: Iterable[str]) -> Mapping[str, str]:
    """Translate the lines of ``pip config list`` into environment variables of uv.

    Raises:
        ValueError: a key has no counterpart.
    """
    values: dict[str, str] = {}
    lines = [line.partition("=")[::2] for line in printed]
    for section in PRECEDENCE:
        values |= {name.removeprefix(f"{section}."): value for name, value in lines if name.startswith(f"{section}.")}
    variables = dict(LIKE_PIP)
    for key, value in values.items():
        if key in WITHOUT_EFFECT:
            continue
        if key not in COUNTERPARTS:
            raise ValueError(key)
        separator = "," if key == "find-links" else " "
        variables |= dict.fromkeys(COUNTERPARTS[key], separator.join(str(ast.literal_eval(value)).split()))
    return variables


def install_with_uv(arguments: list[str]) -> bool:
    """Install with uv; False where it cannot."""
    if find_spec("uv") is None:
        return False
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True)
    try:
        variables = uv_variables(listed.stdout.splitlines())
    except ValueError as key:
        print(f"pip installs: uv has no counterpart of pip's setting '{key}'", file=sys.stderr)
        return False
    command = [sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable, *arguments]
    if subprocess.run(command, env={**variables, **os.environ}).returncode == 0:
        return True
    print("uv could not install this: pip tries", file=sys.stderr)
    return False


if __name__ == "__main__":
    if not install_with_uv(sys.argv[1:]):
        sys.exit(subprocess.run([sys.executable, "-m", "pip", "install", "--no-compile", *sys.argv[1:]]).returncode)
