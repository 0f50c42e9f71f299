"""Scores of runs, by their predictions alone: those of this plug-in, and those of models trained elsewhere.

The way of a number: ``run_record`` (run.json: what decided a run) and ``predictions`` (predictions.parquet, read
strictly), the two files through which models and scores know each other → ``scored_rows`` (clips, or stories) → ``metrics``
and ``intervals`` → ``evaluation`` (all runs of a folder) → ``tables`` → ``table_formats``. ``run_diagnostics`` is what a
page shows of a run, ``implied_prevalence`` what printed numbers give away of the labels. Nothing here needs PyTorch or
the pipeline.
"""
