"""What several files of the plug-in's tests share.

`planted_study` (features that tell ratings) · `training` (short runs on a small one) · `own_studies` (from a folder of
files to a model) · `runs` (of models, and their predictions) · `planted_topics` (embeddings in groups) · `text_service`
(a language model behind a URL, and a BART of random weights).
"""
