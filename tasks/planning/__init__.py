"""Before anything is started: what is due, in which order, and what it will cost.

``plan`` puts it together: the ``selection`` that is asked for, the ``sources`` (files) of each session, what of it is
``up_to_date`` in the store, which of it shares ``passes`` over the frames, the ``order`` in which work begins (by
``cost``), and its ``spread`` over processors.
``wanted`` tells a reader the same, and changes nothing. ``label_curves`` says which features the study's curves are.
``sample`` → ``rates`` → ``measured_study`` → ``forecast`` measure how long a whole study will take here.
"""
