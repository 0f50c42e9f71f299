"""The ``storyframes`` command.

``entry`` is where it begins and ends, ``app`` puts the commands together. One file a group of commands: ``study``
(check, synthesize), ``init``, ``import_labels``, ``sync``, ``plan``, ``extract`` (extract, demo), ``extract_file``,
``index``, ``clips``, ``status`` (status, runs), ``upkeep`` (verify, gc, archive), ``look`` (show, view, overlay),
``report``, ``compare``, ``export``, ``release``, ``statistics`` (agreement, compare_ratings, mixed), ``pairs`` and
``pairs_llm``, ``score`` (llm, bart, convert), ``evaluate``, ``train``, ``benchmark``, ``topics``, ``models``,
``extractors``, ``deploy``, ``doctor``; ``plug_in_commands`` the groups that plug-ins bring.

``terminal`` is what they share, ``tables`` what they show. ``run`` is one extraction and ``run_progress`` what is seen
of it meanwhile, ``train_progress`` of training, ``demo`` the copy of the demo study, ``repair_advice`` what to do after
``verify``. No command computes anything.
"""
