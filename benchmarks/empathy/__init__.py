"""The paper's models and statistics: training, scores of predictions, agreement, and coverage of intervals."""
