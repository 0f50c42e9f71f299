"""The clocks of a study's other cameras and microphones, measured by their sound.

``command`` is ``storyframes sync``. ``propose_clocks`` measures those of a session's tracks: ``match_sound`` compares
two recordings. ``write_clocks`` writes them into the study's tables.
"""
