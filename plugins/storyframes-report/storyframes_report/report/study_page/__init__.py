"""The study page: it answers questions, each with its answer first, and lists what is behind it afterwards.

``summary`` is what is kept of a session when its page has been written. ``columns`` are all sessions as short columns,
which ``assets/study.js`` shows as a map and a table, and which the next report compares. ``answers`` are the questions,
``changes`` the one about the last report. ``charts`` are drawn beside them.
"""
