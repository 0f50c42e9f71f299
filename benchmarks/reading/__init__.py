"""Reading clips from mapped files."""
