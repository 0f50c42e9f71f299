"""Before anything is started: what is due, in which order, and what it will cost.

``plan`` compares the study with the store: of the ``selection`` that is asked for, ``sources`` gives the files of each
session, and ``units`` makes of what is due the units that begin in order, with what they need and cost. ``sample`` →
``rates`` → ``forecast`` measure how long a whole study will take here.

``parts`` deals the sessions to processes that run apart.
"""
