"""The files whose content decides values, and the libraries of networks, which need care to import and to run.

``weights`` (model files: where they are, how they are fetched) and ``digests`` (SHA-256 of inputs).
``libraries`` is the one place where torchvision and OpenVINO are imported.
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from tasks.models.digests import model_digest
    from tasks.models.libraries import import_torchvision
    from tasks.models.weights import ModelFile

__all__ = ["ModelFile", "import_torchvision", "model_digest"]

__getattr__, __dir__ = exports(
    __name__,
    {
        "digests": "model_digest",
        "libraries": "import_torchvision",
        "weights": "ModelFile",
    },
)
