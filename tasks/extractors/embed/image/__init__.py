"""Models of pictures as features: one row for each frame.

``settings`` is the section, ``extractor`` the feature. ``encoder`` says which model and what is read out of it,
``shape`` how wide a row that is. ``preprocessing`` makes a model's images as its library does, ``faces`` finds faces
and cuts them out. ``network`` is what an engine of ``image_networks`` computes: a ``backbone``, its layers and pools,
from ``timm_models``, ``transformers_models`` or ``torchvision_models``; ``weights`` reads files of them.
"""
