"""Features of pictures: a row of numbers for each frame, made by a network.

``settings`` is the section of a model that the configuration names, ``extractor`` the feature. ``encoder`` says which
model and what is read out of it; ``preprocessing`` makes a model's images as its library does, ``faces`` finds faces
and cuts them out. ``network`` is what computes: one of the ``backbones`` of timm, transformers or torchvision, with its
layers and pools. ``engines`` runs it, with OpenVINO on processors and torch on a GPU, for which ``folding`` folds batch
normalisations into convolutions. ``writer`` feeds an engine with frames and stores its rows in their order.
``resnet50``, beside this folder, is built on it.
"""
