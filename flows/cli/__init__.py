"""The ``storyframes`` command.

``entry`` is where it begins and ends, ``app`` puts the commands together, with the groups of plug-ins. ``terminal`` is
what all commands share, ``tables`` what they show. One file holds a few commands of one subject: ``start`` (doctor,
plan, init, check, synthesize), ``extract`` (extract, extract-file, demo), ``clips`` (index, clips), ``runs`` (jobs,
status, runs, deploy), ``look`` (report, show, view, overlay, compare), ``upkeep`` (verify, gc, archive, share),
``forget``, ``models`` (models, extractors). ``run`` is one extraction and its progress. No command computes anything.
"""
