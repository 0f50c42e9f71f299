"""What each feature says of a label in people whom a model has not seen: ``storyframes baseline``.

``labelled_units`` finds what was labelled (people, sessions, stories) and each feature's means over it,
``left_out_people`` predicts each person from the others and deals labels out between people, and ``score`` compares the
predictions with the mean of the others. Nothing here needs PyTorch or the pipeline.
"""
