"""Networks that make a row of numbers of each picture: what ``resnet50`` and the sections ``[[embed]]`` share.

``settings`` says where and in what they compute. ``engine`` says what a network and an engine are, ``engines`` chooses:
``openvino_engine`` on processors, ``torch_engine`` on a GPU. A network is an ``embedding_network`` around somebody's
model, ``crops`` makes its images of frames; ``embedding_writer`` feeds an engine with frames and stores what it gives,
in the frames' order.
"""
