"""The report: a static site about a study and its features that opens from disk, with no network.

Plain data: the ``matrix`` of sessions and features, ``facts`` with ``label_facts``, and the ``timetable`` of a session.
The study page is a room of its own, ``study_page``.
Charts (a ``chart`` each): the ``people_chart`` of who is seen when, and the ``timeline`` of a track,
drawn from the points that ``downsample`` keeps; ``packing`` makes their numbers short text. Pages (HTML, everything
escaped, written by ``pages``): ``session_page`` with all tracks of a session, and ``compare_page``. The ``player`` of a
session's page knows clocks and frame times; ``points`` are what it draws over the picture, ``previews`` the small
copies of recordings that browsers play. ``site`` builds the whole site, with the pages of plug-ins (a ``page`` each).
"""
