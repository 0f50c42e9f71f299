"""What counts as sound that is cut off at full scale."""

RUN = 3  # samples in a row at full scale: a single one can be a peak that just fits
FULL = 32_766  # of 32,767: a resampler or a gain may take one away
