"""What programs write of speech: the formats of transcripts, and what in their texts is a speaker's name or no speech.

``json_formats`` recognises a JSON document by its keys; ``whisper_formats`` and ``service_formats`` have the programs.
Each makes ``drafts``: utterances whose times nobody has checked yet. ``speaker_names`` finds names that are written in
the text, ``non_speech`` what is not said in words. Captions are read by :mod:`tasks.study.captions`.
"""
