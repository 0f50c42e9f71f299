"""Tiny models with random weights, a reference and the service that gives models.

`tiny_audio_models` (of sound, as transformers saves them) · `tiny_image_models` (of pictures, in the folders that timm,
transformers and torchvision load) · `tiny_text_models` (encoders of texts) · `tiny_video_models` (of videos) ·
`torchvision_reference` (what torchvision makes of frames) · `hub_server` (as much of the Hugging Face hub as fetching
needs).
"""
