"""Other installations, users and operating systems than those of the tests.

`installed` (the wheel, in an environment of its own) · `light_install` (storyframes without the pipeline) · `users`
(several users of one machine) · `rootless` (a user without any privilege) · `windows` (a process without what Windows
lacks).
"""
