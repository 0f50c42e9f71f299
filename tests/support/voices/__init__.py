"""Recorded voices, real models of speech, and conversations that are composed of them.

`packages.toml` pins the packages and `fetching` brings them into a cache outside the project (``make voices``) ·
`human` (the recordings, with what they say) · `scenes` (conversations with known times) · `talks` (free conversations
in several rooms) · `scoring` (heard words beside what was said).
"""
