"""DOPE: 2D and 3D poses of bodies, hands and faces in video frames, in our own batched inference.

Weinzaepfel et al., "DOPE: Distillation Of Part Experts for whole-body 3D pose estimation in the wild", ECCV 2020.
Importing this package imports no torch; its modules, in the order in which data flows:

    joints        parts, joint names, bones
    options       what a model file configures
    checkpoint    a model file, read and checked
    settings      what the user configures
    roi_ops       NMS and RoIAlign
    layers        the layers, of frames and of boxes, in torch
    openvino_layers  the layers in OpenVINO, on processors
    network       uint8 frames in, poses of every kind in every box out
    postprocessing  from the network's output to detections
    people        who is in a frame: bodies, hands and faces that belong together; and as arrays of many frames
    detector      all of the above: frames in, detections out
    extractor     a session's frames in, the feature ``dope`` out
"""
