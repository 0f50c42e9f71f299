"""A bundle of MediaPipe's own models for its Tasks: ``make_bundle.py OLD_WHEEL BUNDLE``, in the plug-in's environment.

The published bundle is on a server that tests cannot count on. Wheels up to 0.10.21 have models of the same kinds for
an older interface; here they get what Tasks ask of a model: how pixels are normalised, and one tensor with all 478
points of the face. The 468 of the mesh are real. The ten of the irises are not: other numbers fill their place.
"""

import sys
import zipfile

import flatbuffers
from mediapipe.tasks.metadata import metadata_schema_py_generated as metadata
from mediapipe.tasks.metadata import schema_py_generated as schema

MODELS = {  # in the bundle: in the wheel, and the mean and the standard deviation of pixels 0..255
    "face_detector": ("face_detection/face_detection_short_range", 127.5, 127.5),
    "face_landmarks_detector": ("face_landmark/face_landmark_with_attention", 0, 255),
    "pose_detector": ("pose_detection/pose_detection", 127.5, 127.5),
    "pose_landmarks_detector": ("pose_landmark/pose_landmark_full", 0, 255),
    "hand_landmarks_detector": ("hand_landmark/hand_landmark_full", 0, 255),
    "hand_roi_refinement": ("holistic_landmark/hand_recrop", 0, 255),
}


def normalised(model, mean, std):
    """The model with the metadata of its one input, a picture."""
    options = metadata.NormalizationOptionsT()
    options.mean, options.std = [mean], [std]
    unit = metadata.ProcessUnitT()
    unit.optionsType, unit.options = metadata.ProcessUnitOptions.NormalizationOptions, options
    image = metadata.ImagePropertiesT()
    image.colorSpace = metadata.ColorSpaceType.RGB
    content = metadata.ContentT()
    content.contentPropertiesType, content.contentProperties = metadata.ContentProperties.ImageProperties, image
    tensor, graph, about = metadata.TensorMetadataT(), metadata.SubGraphMetadataT(), metadata.ModelMetadataT()
    tensor.name, tensor.content, tensor.processUnits = "image", content, [unit]
    graph.inputTensorMetadata = [tensor]
    graph.outputTensorMetadata = [metadata.TensorMetadataT() for _ in model.subgraphs[0].outputs]
    about.subgraphMetadata = [graph]
    entry, buffer = schema.MetadataT(), schema.BufferT()
    entry.name, entry.buffer, buffer.data = "TFLITE_METADATA", len(model.buffers), packed(about, b"M001")
    model.metadata, model.buffers = [entry], [*model.buffers, buffer]
    return model


def with_one_mesh(model):
    """The face's model with two outputs instead of seven: 468 points and what fills up ten more, and the score."""
    graph = model.subgraphs[0]
    sizes = {output: numbers(graph.tensors[output]) for output in graph.outputs}
    mesh, score = (next(output for output, size in sizes.items() if size == wanted) for wanted in (1404, 1))
    irises = [output for output, size in sizes.items() if size == 10]
    parts = []
    for source in (mesh, *irises, irises[0]):
        reshaped, operator = like(graph.tensors[source], [1, sizes[source]]), schema.OperatorT()
        options = schema.ReshapeOptionsT()
        options.newShape = reshaped.shape
        operator.opcodeIndex = operator_code(model, schema.BuiltinOperator.RESHAPE)
        operator.builtinOptionsType, operator.builtinOptions = schema.BuiltinOptions.ReshapeOptions, options
        graph.tensors.append(reshaped)
        parts.append(len(graph.tensors) - 1)
        operator.inputs, operator.outputs = [source], [parts[-1]]
        graph.operators.append(operator)
    operator, options = schema.OperatorT(), schema.ConcatenationOptionsT()
    options.axis = 1
    graph.tensors.append(like(graph.tensors[mesh], [1, 1434]))
    operator.opcodeIndex = operator_code(model, schema.BuiltinOperator.CONCATENATION)
    operator.builtinOptionsType, operator.builtinOptions = schema.BuiltinOptions.ConcatenationOptions, options
    operator.inputs, operator.outputs = parts, [len(graph.tensors) - 1]
    graph.operators.append(operator)
    graph.outputs = [operator.outputs[0], score]
    return model


def numbers(tensor):
    size = 1
    for length in tensor.shape:
        size *= int(length)
    return size


def like(tensor, shape):
    made = schema.TensorT()
    made.shape, made.type, made.buffer, made.name = shape, tensor.type, 0, f"{tensor.name.decode()}_{shape[-1]}"
    return made


def operator_code(model, builtin):
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = builtin
    code.version = 1
    model.operatorCodes.append(code)
    return len(model.operatorCodes) - 1


def packed(content, identifier):
    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(content.Pack(builder), file_identifier=identifier)
    return bytes(builder.Output())


with zipfile.ZipFile(sys.argv[1]) as wheel, zipfile.ZipFile(sys.argv[2], "w", zipfile.ZIP_STORED) as bundle:
    for name, (place, mean, std) in MODELS.items():
        content = bytearray(wheel.read(f"mediapipe/modules/{place}.tflite"))
        model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
        model = with_one_mesh(model) if name == "face_landmarks_detector" else model
        entry = zipfile.ZipInfo(f"{name}.tflite", (2024, 1, 1, 0, 0, 0))
        bundle.writestr(entry, packed(normalised(model, mean, std), b"TFL3"))
