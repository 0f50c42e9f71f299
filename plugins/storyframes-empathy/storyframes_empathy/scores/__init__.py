"""Scores of runs, by their predictions alone: those of this plug-in, and those of models trained elsewhere.

``run_record`` (run.json: what decided a run) and ``predictions`` (predictions.parquet, read strictly) are the files
that training writes and scoring reads. ``scored_rows`` makes rows of clips or stories of them, ``metrics`` and
``intervals`` score the rows, ``evaluation`` scores all runs of a folder, and ``tables`` and ``table_formats`` show the
scores. ``forgetting`` finds the rows of people who withdrew. ``run_diagnostics`` is what a page shows of a run,
``implied_prevalence`` what published numbers imply about the labels. Nothing here needs PyTorch or the pipeline.
"""
