"""Who speaks on one microphone of several people, by their voices.

``voice_models`` reads a local network that turns a second of voice into a vector. ``turns`` groups these vectors into
voices and says when each one speaks. ``naming`` says whose voice each is, and writes the speakers into transcripts.
"""
