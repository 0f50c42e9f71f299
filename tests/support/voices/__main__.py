"""``python -m support.voices``: fetch what is missing of the pinned packages, and say where everything is."""

from __future__ import annotations

import sys

from support.voices.fetching import PackageError, fetch, pinned_packages


def main() -> int:
    failed = 0
    for package in pinned_packages().values():
        try:
            print(f"{package.name} {package.version} ({package.license}): {fetch(package)}", flush=True)
        except PackageError as error:
            print(f"failed: {error}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
