"""The report: a static site about a study and its features that opens from disk, with no network.

The way of a page: ``matrix``, ``facts`` with ``label_facts`` and ``track_facts``, ``agreement``, and ``session`` (what
there is to say, plain data) → ``study_charts`` with ``label_charts`` (of ``bars``), ``findings_chart`` and ``timeline``
(a ``chart`` each, drawn from what ``downsample`` keeps), and ``thumbnails`` → ``session_page`` (of all tracks of a
session), ``pages``, ``plug_in_pages`` (of plug-ins, which give a ``page``), ``compare_page``, ``topics_page`` and
``benchmark_page`` (HTML, everything escaped) → ``site`` in its ``folder`` (files, made whole or not at all).
``key_tables`` says the most important of it in Markdown. The pages need plotly and Jinja2 (the extra
``storyframes[report]``); matrix, facts and key tables do not.
"""
