"""Who speaks on one microphone of several people, by their voices.

``voice_models`` reads a local network that turns a second of voice into a vector, such as ``campplus``. ``turns``
groups these vectors into voices and says when each one speaks; ``rttm`` reads the turns that another program found.
Whose voice each is says ``enrolment``, by sound or by hand, and ``mouths``, by the feature ``speaking``. ``naming``
brings these together and writes the speakers into transcripts.
"""
