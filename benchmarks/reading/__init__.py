"""Reading clips: from mapped files, on a grid, over a network, and the clip index that they come from."""
