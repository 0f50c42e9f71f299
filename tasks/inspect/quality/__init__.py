"""What is wrong with a recording, judged by its features: each finding has its rule and its times, and a rule that has
nothing to look at says so.

``check`` applies the rules: ``picture_rules``, ``sound_rules`` and ``agreement_rules``, which say what they find in
``findings`` and work on ``spans`` of time. The rules are deliberately few and simple, so that a person can check each
by eye on the session's page. They point at what to look at; none of them changes a feature.
"""
