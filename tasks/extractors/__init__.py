"""The extractors: each turns a session's files into one feature.

``base`` says what an extractor is, with its ``settings`` and its ``source``. ``registry`` has all of them: the
project's, those of plug-ins (``plug_ins`` loads and checks them) and the models of the configuration. ``availability``
says what can run on this machine, ``earlier_fingerprints`` which versions of development versions are still current.
``regions`` is what becomes of features of a region of another track's picture.

``frames`` comes first: it is the session's clock. ``frame_pass`` decodes a video once for all features of its frames.
The general rooms are ``image``, ``video``, ``audio`` and ``text``, for any model that the configuration names
(``embed`` is what they share, ``torch_compute`` how their networks compute). ``resnet50``, ``opensmile``, ``sbert`` and
``glove`` are built on them. ``openface`` and ``dope`` are rooms of their own, ``speaking`` compares a session's
microphones, ``label_curve`` makes a feature of continuous labels, and ``outside`` runs a plug-in's program in an
environment or a container of its own. External programs work in a ``tool_folder``.
"""
