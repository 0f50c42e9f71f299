"""The one place that imports OpenVINO, because its import reports to Google Analytics.

``import openvino`` and ``openvino.convert_model`` send events through the package ``openvino_telemetry``, unasked, and
leave an identifier in ``~/intel``. Where that package cannot be imported OpenVINO puts a silent one of its own in its
place; so here it cannot be imported.

Every module of ``tasks/`` that needs OpenVINO calls :func:`import_openvino` and never imports it by itself.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import cast


def import_openvino() -> ModuleType:
    """The openvino package, unable to report.

    Raises:
        ImportError: it is not installed.
    """
    sys.modules["openvino_telemetry"] = cast(ModuleType, None)  # Python's way to say that a module cannot be imported
    import openvino

    return openvino
