"""DOPE: 2D and 3D poses of bodies, hands and faces in video frames, in our own batched inference.

Weinzaepfel et al., "DOPE: Distillation Of Part Experts for whole-body 3D pose estimation in the wild", ECCV 2020.
Importing this package imports no torch; its modules, in the order in which data flows:

    joints        parts, joint names, units
    options       what a model file configures
    checkpoint    a model file, read and checked (with checkpoint_options and checkpoint_weights)
    settings      what the caller configures
    frames        uint8 frames into the network's input
    roi_ops       NMS and RoIAlign
    proposals     which boxes may hold a person
    resnet        ResNet-50 for whole frames and for single boxes
    box_products  ResNet-50's last layer for boxes as matrix products over all of them
    layers        the layers, of frames and of boxes, in torch
    mapped_weights  weights in a file, so that they take no memory while nobody reads them
    openvino_layers  the layers in OpenVINO, on processors
    network       frames in, poses of every kind in every box out
    candidates    the poses of the network's output worth looking at
    ppi           candidates into detections: pose proposals integration
    pose_nms      candidates into detections: the alternative, non-maximum suppression
    assignment    hands and faces to bodies
    detections    what was found in one frame
    postprocessing  from the network's output to the detections
    detector      all of the above: frames in, detections out
    participant   one person per frame, as arrays of fixed shape
    ragged        everybody, as flat arrays with offsets
    extractor     a session's frames in, the feature ``dope`` out
"""
