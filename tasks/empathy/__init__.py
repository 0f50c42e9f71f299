"""The paper's benchmark: how far one story moves one listener, from the features of a session, scored honestly.

The way of a number: ``run_record`` (run.json: what decided a run) and ``predictions`` (predictions.parquet, read
strictly), the two files through which models and scores know each other. What scores needs neither PyTorch nor the
pipeline.
"""
