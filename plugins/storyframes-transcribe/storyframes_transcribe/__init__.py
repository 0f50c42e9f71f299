"""Transcripts of a study's recordings, made on one's own machine.

``command`` is ``storyframes transcribe``, ``settings`` its section of the configuration. ``recordings`` says what is to
be transcribed and what is there, ``session`` does it, one session at a time; ``on_cluster`` makes these tasks of a
cluster. ``voices`` reads the sound as a stream and finds the stretches with voice; ``whisper`` turns them into words by
a model that ``models`` finds and checks, in the language that ``listening`` detects where none is given
(``languages``); ``crosstalk`` removes what a neighbour's microphone heard as well. ``words`` are what both work on:
there pieces of words are joined and get the times of the voice. ``speakers`` says who speaks on
a microphone of several people by the feature ``speaking``, ``one_microphone`` by
their voices. ``transcript_file`` is what is written, and ``outdated`` names the files that earlier
rules made.

``align_command`` is ``storyframes align``: ``alignment`` reads texts that were handed in and writes transcripts of
them, with the times that ``ctc`` finds.

``vad`` is a feature: how probable it is that somebody speaks.
"""
