"""Before anything is started: ``plan`` (which features of which sessions are due) in the order of ``cost``.

``sample`` → ``rates`` → ``forecast`` measure how long a whole study will take here.
"""
